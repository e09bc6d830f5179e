"""Small image files for the tests of folders and tables: one of every awkward kind, and sets."""

import hashlib
import io
import pickle
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets import CIFAR10

CLASSES = ("cat", "dog", "owl")


def picture(seed: int, size: tuple[int, int] = (24, 16), mode: str = "RGB") -> Image.Image:
    """Smooth random colours, in (width, height)."""
    noise = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC).convert(mode)


def folder_of_classes(root: Path, per_class: int = 8) -> Path:
    """A folder for each class, with JPEG files."""
    for number, name in enumerate(CLASSES):
        (root / name).mkdir(parents=True, exist_ok=True)
        for position in range(per_class):
            image = picture(100 * number + position)
            image.save(root / name / f"{name}_{position}.jpg")
    return root


def flat_folder(root: Path, per_class: int = 4) -> list[str]:
    """Images without class folders; returns the lines of a label table."""
    root.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, name in enumerate(CLASSES):
        for position in range(1, per_class + 1):
            picture(100 * number + position).save(root / f"{name}_{position}.jpg")
            lines.append(f"{name}_{position}.jpg,{name}")
    return lines


def as_jpeg(image: Image.Image, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", **options)
    return buffer.getvalue()


def png_of_size(width: int, height: int) -> bytes:
    """A PNG header of any size, without the pixels."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(b"\0" * 9))


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def awkward_folder(root: Path) -> dict[str, str]:
    """Every kind of file of the shared `messy/images`; returns the code expected of each.

    A blank: fine. `none`: must not be taken for an image.
    """
    root.mkdir(parents=True, exist_ok=True)
    large = as_jpeg(picture(1, (64, 48)), quality=95)
    flipped = bytearray(large)
    flipped[700:760] = bytes(value ^ 0x5A for value in flipped[700:760])
    one = io.BytesIO()
    Image.new("RGB", (1, 1)).save(one, "PNG")
    bad_crc = bytearray(one.getvalue())
    bad_crc[bad_crc.index(b"IDAT") + 6] ^= 0xFF
    content = {
        "truncated.jpg": (large[: len(large) * 55 // 100], "unreadable"),
        "truncated_tail.jpg": (large[:-12], "unreadable"),
        "bitflips.jpg": (bytes(flipped), None),  # damaged data may still decode
        "zero_bytes.jpg": (b"", "unreadable"),
        "html_inside.png": (b"<html>404</html>", "unreadable"),
        "bomb.png": (png_of_size(14_000, 14_000), "unreadable"),
        "bad_crc.png": (bytes(bad_crc), "unreadable"),
        "no_extension": (as_jpeg(picture(2)), "ending"),
        "UPPER.JPEG": (as_jpeg(picture(3)), ""),
        "png_inside.jpg": (None, "ending"),
        "日本語 ファイル.jpg": (as_jpeg(picture(4)), ""),
        "cafe\u0301_nfd.jpg": (as_jpeg(picture(5)), ""),
        "caf\u00e9_nfc.jpg": (as_jpeg(picture(6)), ""),
        "my, 'best' shirt (1);#2.jpg": (as_jpeg(picture(7)), ""),
        "progressive.jpg": (as_jpeg(picture(8), progressive=True), ""),
        ".hidden.jpg": (as_jpeg(picture(9)), "none"),
        "._shirt.jpg": (b"\x00\x05\x16\x07", "none"),
        "Thumbs.db": (b"\xd0\xcf\x11\xe0", "none"),
        "notes": (b"no image", "none"),
        "README.txt": (b"no image", "none"),
    }
    saved = {
        "cmyk.jpg": (picture(10, mode="CMYK"), "CMYK"),
        "gray.jpg": (picture(11, mode="L"), "grey"),
        "bilevel.png": (picture(12, mode="1"), "grey"),
        "rgba.png": (picture(13, mode="RGBA"), "transparent"),
        "gray_alpha.png": (picture(14, mode="LA"), "transparent"),
        "palette_transparent.png": (picture(15, mode="P"), "transparent"),
        "gray16.png": (Image.fromarray(np.full((16, 24), 40_000, np.uint16)), "bits"),
        "float32.tiff": (Image.fromarray(np.full((16, 24), 0.5, np.float32)), "bits"),
        "photo.webp": (picture(16), ""),
        "photo.bmp": (picture(17), ""),
        "one_pixel.png": (picture(18, (1, 1)), "tiny"),
        "one_pixel_gray.jpg": (picture(19, (1, 1), "L"), "tiny"),
        "very_wide.jpg": (picture(20, (400, 16)), "elongated"),
        "very_tall.png": (picture(21, (9, 300)), "elongated"),
    }
    for name, (content_of, _) in content.items():
        if content_of is not None:
            (root / name).write_bytes(content_of)
    for name, (image, _) in saved.items():
        options = {"transparency": 0} if name.startswith("palette") else {}
        image.save(root / name, **options)
    picture(22).save(root / "png_inside.jpg", "PNG")
    frames = [picture(23 + n, mode="P") for n in range(4)]
    frames[0].save(root / "animated.gif", save_all=True, append_images=frames[1:])
    frames[1].save(root / "multipage.tiff", save_all=True, append_images=frames[2:3])
    for orientation in (1, 3, 5, 6, 8):
        exif = Image.Exif()
        exif[0x0112] = orientation
        picture(30 + orientation).save(root / f"exif_orientation_{orientation}.jpg", exif=exif)
    picture(40).save(root / "icc.jpg", icc_profile=b"not a real profile")
    (root / "folder.jpg").mkdir()
    picture(41).save(root / "folder.jpg" / "inner.jpg")
    expected = {name: code for name, (_, code) in {**content, **saved}.items() if code is not None}
    expected |= {"animated.gif": "frames", "multipage.tiff": "frames", "icc.jpg": ""}
    turned = {n: "turned" if n > 1 else "" for n in (1, 3, 5, 6, 8)}
    expected |= {f"exif_orientation_{n}.jpg": code for n, code in turned.items()}
    return expected | {"folder.jpg/inner.jpg": ""}


def fake_cifar10(root: Path, patch: pytest.MonkeyPatch, per_file: int = 40) -> Path:
    """A folder as torchvision downloads it, with few photos of noise, known to it as genuine."""
    folder = root / CIFAR10.base_folder
    folder.mkdir(parents=True)
    names = [f"name_{number}" for number in range(10)]

    def written(name: str, content: dict) -> list[str]:
        (folder / name).write_bytes(pickle.dumps(content))
        return [name, hashlib.md5((folder / name).read_bytes()).hexdigest()]

    def batch(seed: int) -> dict:
        data = np.random.default_rng(seed).integers(0, 256, (per_file, 3072), dtype=np.uint8)
        return {"data": data, "labels": [number % 10 for number in range(per_file)]}

    train = [written(f"data_batch_{n}", batch(n)) for n in range(1, 6)]
    patch.setattr(CIFAR10, "train_list", train)
    patch.setattr(CIFAR10, "test_list", [written("test_batch", batch(6))])
    name, md5 = written("batches.meta", {"label_names": names})
    patch.setattr(CIFAR10, "meta", {"filename": name, "key": "label_names", "md5": md5})
    return root
