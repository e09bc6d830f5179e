"""Pictures by their row, decoded once or every time."""

import hashlib
import importlib.metadata
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import PIL
import torch
from torch import Tensor

from project.data import decoding
from project.data.loader import available_cpus
from project.errors import UserError

Cache = Literal["none", "memory", "disk"]

FOLDER = Path.home() / ".cache" / "project" / "pixels"
_SHARE = 0.8  # of what is free; the rest is for the model and everybody else


class Pixels:
    """The pixels of many files, each at the scale that is needed.

    Holds no list: paths, sizes and pixels lie in arrays, so that workers share them and their
    memory stays flat. What is given out is a copy; changing it changes nothing here.

    Args:
        paths: Fixed-width array of file names [N], text or bytes.
        at_least: Height and width that a JPEG must keep when it is read scaled down; see
            `decoding.decode`.
        cache: `none` decodes at every access. `memory` keeps what was decoded in memory that all
            workers share. `disk` decodes everything once into a file, which later runs find again
            as long as no picture, no setting and no version of the decoding has changed.
        folder: Where `disk` writes. What lies there can be deleted at any time.

    Raises:
        UserError: The pictures would not fit into the memory or onto the disk, or one of them can't
            be read.
    """

    def __init__(
        self,
        paths: np.ndarray,
        *,
        at_least: tuple[int, int] | None = None,
        cache: Cache = "none",
        folder: Path = FOLDER,
    ) -> None:
        is_text = paths.dtype.kind == "U"  # 4 bytes a letter; as file system bytes it is 1
        self._paths = np.char.encode(paths, "utf-8", "surrogateescape") if is_text else paths
        self.at_least = at_least
        self._store: _Memory | _Disk | None = None
        if cache == "memory":
            self._store = _Memory(self._sizes())
        elif cache == "disk":
            self._store = _Disk(folder / self._key(), self)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Tensor:
        found = self._store.get(index) if self._store else None
        if found is None:
            found = self.decoded(index)
            if isinstance(self._store, _Memory):
                self._store.put(index, found)
        return found

    @property
    def nbytes(self) -> int:
        """What the cache takes when it is full, in bytes; 0 without one."""
        return self._store.nbytes if self._store else 0

    def path(self, index: int) -> Path:
        """The file of a row."""
        return Path(os.fsdecode(bytes(self._paths[index])))

    def decoded(self, index: int) -> Tensor:
        """Straight from the file."""
        return decoding.decode(self.path(index), at_least=self.at_least)

    def _sizes(self) -> np.ndarray:
        """int64 [N]: bytes of each decoded picture."""
        count = range(len(self))
        sizes = (3 * decoding.num_pixels(self.path(i), at_least=self.at_least) for i in count)
        return np.fromiter(sizes, np.int64, len(self))

    def _key(self) -> str:
        """Differs as soon as anything does on which the pixels depend."""
        decoders = (PIL.__version__, importlib.metadata.version("simplejpeg"))
        digest = hashlib.sha256(
            repr((decoding.VERSION, *decoders, self.at_least, self._paths.dtype)).encode()
        )
        digest.update(self._paths.tobytes())
        for index in range(len(self)):
            try:
                stat = self.path(index).stat()
            except OSError:
                self.decoded(index)  # raises, and names the file
                raise
            digest.update(f"{stat.st_size} {stat.st_mtime_ns};".encode())
        return digest.hexdigest()[:32]


class _Memory:
    """Pixels in memory that forked and spawned workers share, filled as pictures are asked for.

    Two workers may decode the same picture at once; they write the same bytes.
    """

    def __init__(self, sizes: np.ndarray) -> None:
        self.nbytes = int(sizes.sum())
        _refuse_unless_fits(self.nbytes, "memory", _free_memory(), len(sizes))
        self._ends = np.cumsum(sizes)
        self._pixels = torch.empty(self.nbytes, dtype=torch.uint8).share_memory_()
        self._shapes = torch.zeros(len(sizes), 2, dtype=torch.int32).share_memory_()  # 0: not yet

    def get(self, index: int) -> Tensor | None:
        height, width = self._shapes[index].tolist()
        if height == 0:
            return None
        return _image(self._place(index), height, width)

    def put(self, index: int, image: Tensor) -> None:
        self._place(index)[:] = image.permute(1, 2, 0).numpy().ravel()
        self._shapes[index] = torch.tensor(image.shape[1:])  # last: from now on it is there

    def _place(self, index: int) -> np.ndarray:
        # NumPy copies within this thread; torch would wake others for it, who may be busy
        start = self._ends[index - 1] if index else 0
        return self._pixels.numpy()[start : self._ends[index]]


class _Disk:
    """Pixels in a file that all processes map, written in full before it has its name."""

    def __init__(self, folder: Path, source: Pixels) -> None:
        self._folder = folder
        if not folder.is_dir():
            self._write(source)
        self._shapes: np.ndarray = np.load(folder / "shapes.npy")  # int64 [N, 2]
        self._ends = np.cumsum(3 * self._shapes.prod(axis=1))
        self.nbytes = int(self._ends[-1]) if len(self._ends) else 0
        self._pixels: np.ndarray | None = None  # mapped by each process for itself

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_pixels": None}  # pickling a map would copy the file

    def get(self, index: int) -> Tensor:
        if self._pixels is None:
            self._pixels = np.memmap(self._folder / "pixels", np.uint8, "r")
        start = self._ends[index - 1] if index else 0
        return _image(self._pixels[start : self._ends[index]], *self._shapes[index])

    def _write(self, source: Pixels) -> None:
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._folder.parent).free
        _refuse_unless_fits(int(source._sizes().sum()), "disk", free, len(source))
        temporary = Path(tempfile.mkdtemp(prefix=".writing-", dir=self._folder.parent))
        try:
            shapes = np.zeros((len(source), 2), np.int64)
            with (temporary / "pixels").open("wb") as file:
                for index, image in enumerate(_decoded_ahead(source)):
                    shapes[index] = image.shape[1:]
                    file.write(image.permute(1, 2, 0).numpy().data)
                file.flush()
                os.fsync(file.fileno())
            np.save(temporary / "shapes.npy", shapes)
            try:
                temporary.rename(self._folder)
            except OSError:  # another process was faster and has written the same
                if not self._folder.is_dir():
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _image(stored: np.ndarray, height: int, width: int) -> Tensor:
    """A copy of stored pixels, as `decoding.decode` gives them."""
    return torch.from_numpy(np.array(stored)).view(height, width, 3).permute(2, 0, 1)


def _decoded_ahead(source: Pixels) -> Any:
    """All pictures in order, decoded by as many threads as there are CPUs: Pillow lets go of Python
    while it decodes."""
    threads = available_cpus()
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(source), 8 * threads):  # few at once, so that memory stays flat
            yield from pool.map(source.decoded, range(start, min(start + 8 * threads, len(source))))


def _refuse_unless_fits(needed: int, kind: Cache, free: int | None, count: int) -> None:
    if free is None or needed <= _SHARE * free:
        return
    other = "disk" if kind == "memory" else "none"
    raise UserError(
        f"data.cache is {kind}, but {count:,} decoded pictures take {needed / 1e9:.3g} GB, and "
        f"{free / 1e9:.3g} GB are free, of which {_SHARE:.0%} may be used. Set --data.cache "
        f"{other}, or train on smaller pictures."
    )


def _free_memory() -> int | None:
    """Bytes that shared memory may still take, by every limit that Linux has; None elsewhere."""
    meminfo, shared = Path("/proc/meminfo"), Path("/dev/shm")
    limits = []
    if meminfo.is_file():
        lines = dict(line.split(":") for line in meminfo.read_text().splitlines())
        limits.append(1024 * int(lines["MemAvailable"].split()[0]))
    if shared.is_dir():
        limits.append(shutil.disk_usage(shared).free)
    group = Path("/sys/fs/cgroup")  # version 2
    if (group / "memory.max").is_file() and (group / "memory.current").is_file():
        limit = (group / "memory.max").read_text().strip()
        if limit.isdigit():
            stat = dict(s.split() for s in (group / "memory.stat").read_text().splitlines())
            used = int((group / "memory.current").read_text()) - int(stat.get("inactive_file", 0))
            limits.append(int(limit) - used)
    return min(limits, default=None)
