"""Sound files, and what a network hears of them: loudness by time and pitch."""

import wave
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from project.errors import UserError

FLOOR = 1e-6
"""Added before the logarithm: silence is then no more than a quiet sound of -60 dB."""


@dataclass
class Sound:
    """What becomes of sound files (.wav). Others are taken as they are.

    Args:
        features: `log_mel`, the logarithm of the energy in bands that are as wide as the ear's; or
            `raw`, every sample of the sound a step, a channel each.
        num_mels: Number of the bands.
        window_seconds: Length of sound that a step is computed from.
        hop_seconds: From one step to the next.
    """

    features: Literal["log_mel", "raw"] = "log_mel"
    num_mels: int = 40
    window_seconds: float = 0.025
    hop_seconds: float = 0.01

    def __post_init__(self) -> None:
        if min(self.num_mels, self.window_seconds, self.hop_seconds) <= 0:
            raise UserError(
                f"data.sound has num_mels {self.num_mels}, window_seconds {self.window_seconds}, "
                f"hop_seconds {self.hop_seconds}; each must be above 0."
            )

    def description(self) -> dict[str, Any]:
        """The arguments, as plain values."""
        return asdict(self)


class LogMel(nn.Module):
    """Log-mel spectrogram of one sound.

    Args:
        rate: Samples per second.
        sound: Bands, window and hop.

    Shapes:
        waveform: float [samples], -1 to 1 → float [T, num_mels], a step for each hop
    """

    window: Tensor
    bands: Tensor

    def __init__(self, rate: int, sound: Sound) -> None:
        super().__init__()
        length = max(1, round(rate * sound.window_seconds))
        self.hop = max(1, round(rate * sound.hop_seconds))
        self.size = 1 << (length - 1).bit_length()  # the next power of two is transformed fastest
        self.register_buffer("window", torch.hann_window(length))
        self.register_buffer("bands", mel_bands(rate, self.size // 2 + 1, sound.num_mels))

    def forward(self, waveform: Tensor) -> Tensor:
        spectrum = torch.stft(
            waveform,
            self.size,
            self.hop,
            len(self.window),
            self.window,
            pad_mode="constant",
            return_complex=True,
        )  # fmt: skip - [frequencies, T]
        energy = self.bands @ spectrum.abs().square()  # [num_mels, T]
        return (energy + FLOOR).log().T


def mel_bands(rate: int, num_frequencies: int, num_mels: int) -> Tensor:
    """Triangles from each band's neighbour to the next, evenly spaced in mel [M, frequencies].

    Source: O'Shaughnessy, "Speech communication: human and machine", 1987, for the scale
        mel = 2595 log10(1 + f / 700).
    """
    top = 2595 * np.log10(1 + rate / 2 / 700)
    corners = 700 * (10 ** (np.linspace(0, top, num_mels + 2) / 2595) - 1)  # hertz
    frequencies = np.linspace(0, rate / 2, num_frequencies)
    low, mid, high = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising, falling = (frequencies - low) / (mid - low), (high - frequencies) / (high - mid)
    return torch.tensor(np.maximum(0, np.minimum(rising, falling)), dtype=torch.float32)


def read_wav(path: Path) -> tuple[Tensor, int]:
    """A sound, float [samples, channels] from -1 to 1, and its samples per second.

    Raises:
        ValueError: It is none, or one that is compressed or stored as floating point.
    """
    try:
        with wave.open(str(path)) as file:
            content = file.readframes(file.getnframes())
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
    except (wave.Error, EOFError) as error:
        raise ValueError(f"no sound of whole numbers (PCM): {error}") from error
    if width == 1:
        samples = np.frombuffer(content, np.uint8).astype(np.float32) - 128
    elif width == 3:  # no such type: the three bytes become the upper ones of four
        parts = np.frombuffer(content, np.uint8).reshape(-1, 3)
        padded = np.concatenate([np.zeros_like(parts[:, :1]), parts], axis=1)
        samples = padded.view("<i4")[:, 0].astype(np.float32) / 256
    else:
        samples = np.frombuffer(content, f"<i{width}").astype(np.float32)
    waveform = torch.from_numpy(samples / 2 ** (8 * width - 1)).reshape(-1, channels)
    return waveform, rate
