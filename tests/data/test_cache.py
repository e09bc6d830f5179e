"""The same pixels with and without a cache, in any process, and never stale ones."""

import os
import pickle
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from project.data import cache, decoding
from project.data.cache import Pixels
from project.data.decoding import Unreadable
from project.errors import UserError

COUNT = 7


@pytest.fixture
def paths(tmp_path: Path) -> np.ndarray:
    generator = np.random.default_rng(0)
    names = []
    for number in range(COUNT):
        shape = (40 + number, 60 - number, 3)
        path = tmp_path / f"ö{'x' * number}.{'png' if number == 2 else 'jpg'}"
        Image.fromarray(generator.integers(0, 256, shape, dtype=np.uint8)).save(path)
        names.append(str(path))
    return np.array(names)


def make(paths: np.ndarray, kind: str, tmp_path: Path, **options: object) -> Pixels:
    settings = {"at_least": (16, 16), "folder": tmp_path / "cache", **options}
    return Pixels(paths, cache=kind, **settings)


def plain(paths: np.ndarray) -> list[torch.Tensor]:
    return [decoding.decode(Path(path), at_least=(16, 16)) for path in paths]


def folders(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("kind", ["none", "memory", "disk"])
def test_pixels_are_those_of_the_file_first_and_again(
    paths: np.ndarray, tmp_path: Path, kind: str
) -> None:
    pixels = make(paths, kind, tmp_path)
    assert len(pixels) == COUNT
    for _ in range(2):
        for index in (3, *range(COUNT)):
            assert torch.equal(pixels[index], plain(paths)[index])
    assert [str(pixels.path(index)) for index in range(COUNT)] == paths.tolist()
    expected = sum(image.numel() for image in plain(paths))
    assert pixels.nbytes == (0 if kind == "none" else expected)


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_what_is_kept_is_not_decoded_again(
    paths: np.ndarray, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = plain(paths)
    pixels = make(paths, kind, tmp_path)
    _ = [pixels[index] for index in range(COUNT)]
    monkeypatch.setattr(decoding, "decode", None)
    assert all(torch.equal(pixels[index], expected[index]) for index in range(COUNT))


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_changing_what_was_given_out_changes_nothing(
    paths: np.ndarray, tmp_path: Path, kind: str
) -> None:
    pixels = make(paths, kind, tmp_path)
    _ = pixels[1]
    pixels[1].zero_()
    assert torch.equal(pixels[1], plain(paths)[1])


@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["fork", "spawn"])
@pytest.mark.parametrize("kind", ["none", "memory", "disk"])
def test_workers_see_the_same(
    paths: np.ndarray, tmp_path: Path, kind: str, start_method: str
) -> None:
    pixels = make(paths, kind, tmp_path)
    loader = DataLoader(
        pixels, batch_size=None, num_workers=2, multiprocessing_context=start_method
    )
    assert all(map(torch.equal, loader, plain(paths)))


@pytest.mark.slow
def test_what_a_worker_decoded_all_processes_have(
    paths: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = plain(paths)
    pixels = make(paths, "memory", tmp_path)
    list(DataLoader(pixels, batch_size=None, num_workers=2, multiprocessing_context="spawn"))
    monkeypatch.setattr(decoding, "decode", None)
    assert all(torch.equal(pixels[index], expected[index]) for index in range(COUNT))


def test_a_pickle_holds_paths_but_no_file(paths: np.ndarray, tmp_path: Path) -> None:
    pixels = make(paths, "disk", tmp_path)
    _ = pixels[0]
    size = len(pickle.dumps(pixels))
    assert size < pixels.nbytes / 4
    assert torch.equal(pickle.loads(pickle.dumps(pixels))[4], plain(paths)[4])


def test_a_later_run_finds_the_file(
    paths: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(paths, "disk", tmp_path)
    monkeypatch.setattr(decoding, "decode", None)
    make(paths, "disk", tmp_path)
    assert len(folders(tmp_path)) == 1


def test_a_changed_file_is_decoded_again(paths: np.ndarray, tmp_path: Path) -> None:
    make(paths, "disk", tmp_path)
    path = Path(paths[0])
    stat = path.stat()
    Image.new("RGB", (33, 44), "red").save(path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # of another size, of the same time
    assert make(paths, "disk", tmp_path)[0].shape == (3, 22, 17)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))  # the same size, another time
    make(paths, "disk", tmp_path)
    assert len(folders(tmp_path)) == 3


def test_everything_else_makes_another_file_as_well(
    paths: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(paths, "disk", tmp_path)
    make(paths, "disk", tmp_path, at_least=(40, 40))
    make(paths, "disk", tmp_path, at_least=None)
    make(paths[::-1], "disk", tmp_path)
    make(paths[:-1], "disk", tmp_path)
    monkeypatch.setattr(decoding, "VERSION", decoding.VERSION + 1)
    make(paths, "disk", tmp_path)
    assert len(folders(tmp_path)) == 6


@pytest.mark.slow
def test_processes_that_write_at_once_do_not_disturb_each_other(
    paths: np.ndarray, tmp_path: Path
) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("fork")) as pool:
        made = list(pool.map(partial(make, paths, "disk"), [tmp_path] * 8))
    assert all(torch.equal(pixels[5], plain(paths)[5]) for pixels in made)
    assert len(folders(tmp_path)) == 1  # and nothing half-written beside it


def test_a_broken_picture_leaves_no_cache(paths: np.ndarray, tmp_path: Path) -> None:
    path = Path(paths[3])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(Unreadable, match=path.name):
        make(paths, "disk", tmp_path)
    assert folders(tmp_path) == []
    pixels = make(paths, "memory", tmp_path)
    with pytest.raises(Unreadable, match=path.name):
        _ = pixels[3]
    path.unlink()
    with pytest.raises(Unreadable, match="there is no such file"):
        make(paths, "disk", tmp_path)


@pytest.mark.parametrize(("kind", "instead"), [("memory", "disk"), ("disk", "none")])
def test_what_would_not_fit_is_refused(
    paths: np.ndarray, tmp_path: Path, kind: str, instead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_free_memory", lambda: 10_000)
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda path: _Usage())
    with pytest.raises(UserError, match=rf"cache is {kind}, but 7 .* --data\.cache {instead}"):
        make(paths, kind, tmp_path)


class _Usage:
    free = 10_000


def test_free_memory_is_a_plausible_number() -> None:
    free = cache._free_memory()
    assert free is None or 1e6 < free < 1e14


def test_an_empty_set_is_no_error(tmp_path: Path) -> None:
    for kind in ("none", "memory", "disk"):
        assert len(make(np.array([], dtype="U5"), kind, tmp_path)) == 0
