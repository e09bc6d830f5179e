"""Every kind of file that people have, by the values of its pixels."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
import torch
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from project.data import decoding
from project.data.decoding import Unreadable, decode, header, num_pixels

RAMP = np.arange(48, dtype=np.uint8).reshape(6, 8) * 5  # grey [6, 8], 0 to 235
COLOURS = np.stack([RAMP, 255 - RAMP, np.full_like(RAMP, 100)], axis=-1)  # [6, 8, 3]
BLOCKS = np.kron(COLOURS[:3, :5], np.ones((16, 16, 1))).astype(np.uint8)  # 48 x 80, JPEG keeps it


def pixels(path: Path, **options: object) -> np.ndarray:
    image = decode(path, **options)
    assert image.dtype == torch.uint8
    assert image.shape[0] == 3
    return image.permute(1, 2, 0).numpy()


def saved(path: Path, array: np.ndarray, mode: str | None = None, **options: object) -> Path:
    image = Image.fromarray(array)
    (image.convert(mode) if mode else image).save(path, **options)
    return path


def grey(values: np.ndarray) -> np.ndarray:
    return np.repeat(values[:, :, None], 3, axis=2)


def png(path: Path, header_: bytes, rows: bytes, chunks: dict[bytes, bytes] | None = None) -> Path:
    """A PNG made by hand: Pillow can't write 16 bits of colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    parts = {b"IHDR": header_, **(chunks or {}), b"IDAT": zlib.compress(rows), b"IEND": b""}
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(k, v) for k, v in parts.items()))
    return path


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.tiff", "a.webp", "no_extension", "A.PNG"])
def test_lossless_files_give_their_pixels(tmp_path: Path, name: str) -> None:
    kind = {"webp": "WEBP", "bmp": "BMP", "tiff": "TIFF"}.get(name.rpartition(".")[2], "PNG")
    path = saved(
        tmp_path / name, COLOURS, format=kind, **({"lossless": True} if kind == "WEBP" else {})
    )
    assert np.array_equal(pixels(path), COLOURS)
    assert (header(path).format, header(path).height, header(path).width) == (kind, 6, 8)


def test_the_content_counts_not_the_name(tmp_path: Path) -> None:
    path = saved(tmp_path / "ほん, 'x';#é.jpg", COLOURS, format="PNG")
    assert np.array_equal(pixels(path), COLOURS)
    assert header(path).format == "PNG"


def test_grey_and_bilevel_become_three_equal_channels(tmp_path: Path) -> None:
    assert np.array_equal(pixels(saved(tmp_path / "l.png", RAMP)), grey(RAMP))
    bilevel = (RAMP > 100).astype(np.uint8) * 255
    assert np.array_equal(pixels(saved(tmp_path / "1.png", bilevel, "1")), grey(bilevel))
    assert header(tmp_path / "1.png").mode == "1"


def test_jpeg_grey_and_colour(tmp_path: Path) -> None:
    colour = pixels(saved(tmp_path / "c.jpg", BLOCKS, quality=95, subsampling=0))
    assert np.abs(colour.astype(int) - BLOCKS).max() <= 4
    plain = pixels(saved(tmp_path / "g.jpg", BLOCKS[:, :, 0], quality=95))
    assert np.abs(plain.astype(int) - grey(BLOCKS[:, :, 0])).max() <= 3


def test_cmyk_is_converted(tmp_path: Path) -> None:
    cmyk = Image.merge("CMYK", [Image.new("L", (16, 16), value) for value in (0, 255, 255, 0)])
    cmyk.save(tmp_path / "red.jpg", quality=95)
    assert np.abs(pixels(tmp_path / "red.jpg").astype(int) - [255, 0, 0]).max() <= 6


def test_sixteen_bits_of_grey_are_scaled(tmp_path: Path) -> None:
    values = np.array([[0, 128, 129, 257, 40000, 65535]], dtype=np.uint16)
    expected = np.rint(values / 257).astype(np.uint8)
    assert expected.tolist() == [[0, 0, 1, 1, 156, 255]]
    for name in ("a.png", "a.tiff"):
        Image.fromarray(values).save(tmp_path / name)
        assert np.array_equal(pixels(tmp_path / name), grey(expected))


def test_sixteen_bits_of_colour_are_scaled(tmp_path: Path) -> None:
    values = np.array([[[0, 40000, 65535], [257 * 7, 257 * 8, 257 * 9]]], dtype=">u2")
    path = png(
        tmp_path / "a.png", struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0), b"\0" + values.tobytes()
    )
    assert np.abs(pixels(path)[0].astype(int) - [[0, 156, 255], [7, 8, 9]]).max() <= 1


def test_float_pixels_from_0_to_1_are_scaled(tmp_path: Path) -> None:
    values = np.array([[0.0, 0.5, 1.0]], dtype=np.float32)
    path = saved(tmp_path / "a.tiff", values)
    assert pixels(path)[0, :, 0].tolist() == [0, 128, 255]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([[0.0, 300.0]], np.float32), "float pixels lie in 0 to 300; only 0 to 1"),
        (np.array([[np.nan, 1.0]], np.float32), "float pixels lie in nan"),
        (np.array([[5, 9]], np.int32), "32-bit integers"),
    ],
)
def test_numbers_without_a_known_range_are_refused(
    tmp_path: Path, values: np.ndarray, message: str
) -> None:
    path = saved(tmp_path / "a.tiff", values)
    with pytest.raises(Unreadable, match=message):
        decode(path)


def test_alpha_is_laid_on_white(tmp_path: Path) -> None:
    red = np.zeros((1, 3, 4), np.uint8)
    red[0, :, 0] = 200
    red[0, :, 3] = [0, 51, 255]  # transparent, a fifth, opaque
    expected = [[255, 255, 255], [244, 204, 204], [200, 0, 0]]
    assert pixels(saved(tmp_path / "rgba.png", red))[0].tolist() == expected
    la = np.array([[[0, 0], [0, 51], [0, 255]]], np.uint8)
    assert pixels(saved(tmp_path / "la.png", la))[0, :, 1].tolist() == [255, 204, 0]
    assert header(tmp_path / "la.png").transparent


def test_transparent_colours_are_laid_on_white(tmp_path: Path) -> None:
    palette = Image.new("P", (2, 1))
    palette.putpalette([10, 20, 30, 200, 0, 0])
    palette.putdata([0, 1])
    palette.save(tmp_path / "p.png", transparency=bytes([0, 255]))
    assert pixels(tmp_path / "p.png")[0].tolist() == [[255, 255, 255], [200, 0, 0]]
    palette.save(tmp_path / "p.gif", transparency=1)
    assert pixels(tmp_path / "p.gif")[0].tolist() == [[10, 20, 30], [255, 255, 255]]
    values = np.array([[300, 65535]], dtype=">u2")
    path = png(
        tmp_path / "g16.png", struct.pack(">IIBBBBB", 2, 1, 16, 0, 0, 0, 0),
        b"\0" + values.tobytes(), {b"tRNS": struct.pack(">H", 300)},
    )  # fmt: skip
    assert pixels(path)[0, :, 0].tolist() == [255, 255]


def test_the_first_frame_of_animations_and_the_first_page(tmp_path: Path) -> None:
    frames = [Image.fromarray(grey(np.full((4, 4), value, np.uint8))) for value in (10, 90, 200)]
    for name in ("a.gif", "a.tiff", "a.webp"):
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:], lossless=True)
        assert np.abs(pixels(tmp_path / name).astype(int) - 10).max() <= 1
        assert header(tmp_path / name).frames == 3


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["jpg", "png", "tiff", "webp"])
def test_pictures_come_upright(tmp_path: Path, kind: str, orientation: int) -> None:
    stored = {  # how an upright picture lies in a file of that orientation
        1: lambda a: a, 2: np.fliplr, 3: lambda a: np.rot90(a, 2), 4: np.flipud,
        5: lambda a: a.swapaxes(0, 1), 6: np.rot90, 7: lambda a: np.rot90(a, 2).swapaxes(0, 1),
        8: lambda a: np.rot90(a, 3),
    }[orientation](BLOCKS)  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"jpg": {"quality": 95, "subsampling": 0}, "webp": {"lossless": True}}.get(kind, {})
    path = saved(tmp_path / f"a.{kind}", np.ascontiguousarray(stored), exif=exif, **options)
    assert np.abs(pixels(path).astype(int) - BLOCKS).max() <= 4
    found = header(path)
    assert (found.orientation, found.height, found.width) == (orientation, 48, 80)


@pytest.mark.parametrize(
    ("at_least", "expected"),
    [
        ((24, 40), (24, 40)),  # exactly half
        ((25, 40), (48, 80)),
        ((24, 41), (48, 80)),
        ((10, 10), (12, 20)),  # a quarter
        ((1, 1), (6, 10)),  # an eighth; there is no less
        ((100, 100), (48, 80)),
    ],
)
def test_a_jpeg_is_read_no_smaller_than_asked(
    tmp_path: Path, at_least: tuple[int, int], expected: tuple[int, int]
) -> None:
    lying = Image.Exif()
    lying[0x0112] = 6
    upright = saved(tmp_path / "a.jpg", BLOCKS, quality=95, subsampling=0)
    turned = saved(
        tmp_path / "b.jpg", np.ascontiguousarray(np.rot90(BLOCKS)), quality=95, subsampling=0,
        exif=lying,
    )  # fmt: skip
    step = 48 // expected[0]
    for path in (upright, turned):
        small = pixels(path, at_least=at_least)
        assert small.shape[:2] == expected
        assert num_pixels(path, at_least=at_least) == expected[0] * expected[1]
        means = BLOCKS.reshape(expected[0], step, expected[1], step, 3).mean((1, 3))
        assert np.abs(small - means).max() <= 5


def test_odd_sizes_are_rounded_up(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.jpg", np.zeros((33, 51, 3), np.uint8))
    assert pixels(path, at_least=(16, 25)).shape == (17, 26, 3)
    assert pixels(path, at_least=(17, 25)).shape == (33, 51, 3)


def by_pillow(path: Path, at_least: tuple[int, int] | None) -> np.ndarray:
    with Image.open(path) as image:
        if at_least:
            image.draft(None, at_least[::-1])
        return np.array(image.convert("RGB"))


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0", "4:1:1"])
def test_jpegs_have_the_pixels_that_pillow_gives(
    tmp_path: Path, mode: str, progressive: bool, subsampling: str
) -> None:
    smooth = Image.fromarray(COLOURS).resize((101, 67), Image.Resampling.BICUBIC)
    noise = np.random.default_rng(0).integers(-20, 20, (67, 101, 3))
    noisy = (np.asarray(smooth) + noise).clip(0, 255).astype(np.uint8)
    options = {"quality": 85, "progressive": progressive, "subsampling": subsampling}
    path = saved(tmp_path / "a.jpg", noisy, mode, **options)
    for at_least in (None, (33, 50), (16, 25), (1, 1)):
        image, expected = pixels(path, at_least=at_least), by_pillow(path, at_least)
        assert image.shape == expected.shape
        assert np.abs(image.astype(int) - expected).max() <= 2  # 0 with the same libjpeg-turbo


@pytest.mark.parametrize(("mode", "plain"), [("RGB", True), ("L", True), ("CMYK", False)])
def test_plain_jpegs_are_not_decoded_by_pillow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, plain: bool
) -> None:
    path = saved(tmp_path / "a.jpg", BLOCKS, mode)
    loads: list[str] = []
    load = JpegImageFile.load
    monkeypatch.setattr(JpegImageFile, "load", lambda self: loads.append(self.mode) or load(self))
    for at_least in (None, (8, 8)):
        decode(path, at_least=at_least)
    assert set(loads) == (set() if plain else {"CMYK"})


def test_stray_bytes_that_harm_no_pixel_are_forgiven(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.jpg", BLOCKS, quality=95, subsampling=0)
    whole, expected = path.read_bytes(), pixels(path)
    path.write_bytes(whole[:-2] + bytes(20) + whole[-2:])
    with pytest.raises(ValueError, match="extraneous bytes"):
        simplejpeg.decode_jpeg(path.read_bytes())
    assert np.array_equal(pixels(path), expected)
    path.write_bytes(whole + bytes(20))
    assert np.array_equal(pixels(path), expected)


def test_damaged_jpegs_are_judged_as_pillow_judges_them(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    noise = generator.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    whole = saved(tmp_path / "a.jpg", noise).read_bytes()
    refused = 0
    for place in generator.integers(2, len(whole), 60):
        path = tmp_path / "a.jpg"
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        try:
            expected = by_pillow(path, None)
        except Exception:
            refused += 1
            with pytest.raises(Unreadable, match=r"a\.jpg can't be read as a picture"):
                decode(path)
        else:
            assert np.abs(pixels(path).astype(int) - expected).max() <= 2
    assert 0 < refused < 60


def test_damage_is_found_and_named(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    whole = saved(tmp_path / "whole.jpg", noise).read_bytes()
    checked = bytearray(saved(tmp_path / "whole.png", noise).read_bytes())
    checked[-30] ^= 0xFF
    broken = {
        "cut.jpg": (whole[: len(whole) // 2], "truncated"),
        "tail.jpg": (whole[:-12], "truncated"),
        "crc.png": (bytes(checked), "broken data stream|broken PNG"),
        "empty.jpg": (b"", "it is empty"),
        "page.png": (b"<html>not found</html>", "it is no picture"),
        "Thumbs.db": (b"\xd0\xcf\x11\xe0" * 20, "it is no picture"),
    }
    for name, (content, reason) in broken.items():
        (tmp_path / name).write_bytes(content)
        for at_least in (None, (8, 8)):
            with pytest.raises(
                Unreadable, match=f"{name} can't be read as a picture: .*({reason})"
            ):
                decode(tmp_path / name, at_least=at_least)
    with pytest.raises(Unreadable, match="there is no such file"):
        decode(tmp_path / "gone.jpg")
    with pytest.raises(Unreadable, match="it is a directory"):
        decode(tmp_path)


def test_a_damaged_png_is_not_hidden_by_asking_for_its_orientation(tmp_path: Path) -> None:
    content = bytearray(saved(tmp_path / "a.png", COLOURS).read_bytes())
    content[content.index(b"IDAT") + 6] ^= 0xFF
    (tmp_path / "a.png").write_bytes(content)
    assert header(tmp_path / "a.png").orientation == 1  # decodes nothing, so it can't know
    with pytest.raises(Unreadable):
        decode(tmp_path / "a.png", at_least=(1, 1))


@pytest.mark.parametrize("side", [14_000, 10**9])
def test_bombs_are_refused_before_they_are_decoded(tmp_path: Path, side: int) -> None:
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    path = png(tmp_path / "bomb.png", head, b"\0" * 100)
    for read in (decode, header, num_pixels):
        with pytest.raises(Unreadable, match=r"bomb\.png .* more than 178,956,970 pixels"):
            read(path)


def test_our_own_limit_holds_below_pillows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MAX_PIXELS", 47)
    with pytest.raises(Unreadable, match="more than 47 pixels"):
        decode(saved(tmp_path / "a.png", COLOURS))


def test_damaged_exif_is_no_damaged_picture(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.jpg", BLOCKS, exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    assert pixels(path).shape == BLOCKS.shape


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1)])
def test_extreme_shapes(tmp_path: Path, size: tuple[int, int]) -> None:
    for name in ("a.png", "a.jpg"):
        path = saved(tmp_path / name, np.full((*size, 3), 77, np.uint8))
        assert np.abs(pixels(path, at_least=(224, 224)).astype(int) - 77).max() <= 1
        assert pixels(path).shape[:2] == size


@pytest.mark.parametrize("orientation", [1, 2, 6])
@pytest.mark.parametrize("kind", ["png", "jpg"])
def test_the_result_may_be_written_to(tmp_path: Path, kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = decode(saved(tmp_path / f"a.{kind}", COLOURS, exif=exif))
    assert image.permute(1, 2, 0).is_contiguous()  # as the cache stores it
    image[0, 0, 0] = 9
    assert image[0, 0, 0] == 9
