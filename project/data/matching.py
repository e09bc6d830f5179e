"""Which file a cell of a label table means, however it is written.

Tables come from other machines: with Windows paths, without endings, with accents in another
Unicode form, in another case. A looser reading counts only where a stricter one finds nothing and
exactly one file fits.
"""

import os
import unicodedata
from collections.abc import Callable
from functools import cached_property
from pathlib import Path, PurePosixPath

Readings = dict[str, list[int]]
"""Numbers of the files that share a reading of their names."""

AMBIGUOUS = -2
MISSING = -1


class Finder:
    """Finds files by what a table calls them.

    Args:
        root: The folder that `names` start from.
        names: The files, with `/`; files that are only named in a table are added.
        base: The table's folder, from which its paths may start as well.
    """

    def __init__(self, root: Path, names: list[str], base: Path) -> None:
        self.root = root
        self.names = names
        self.prefix = os.path.relpath(base, root).replace(os.sep, "/")
        self._exact = {name: number for number, name in enumerate(names)}

    def find(self, written: str) -> int:
        """The number of the file, `MISSING` or `AMBIGUOUS`."""
        cell = written.strip().replace("\\", "/")
        if not cell:
            return MISSING
        for path in self._from_root(cell):
            if path in self._exact:
                return self._exact[path]
            if not path.startswith("../") and (self.root / path).is_file():
                return self._add(path)  # hidden, or of an unusual ending, but asked for by name
        for looser in (self._folded, self._stems, self._last, self._last_stems):
            numbers = {n for path in self._from_root(cell) for n in looser.get(_folded(path), ())}
            if not numbers and looser in (self._last, self._last_stems):
                numbers = set(looser.get(_folded(PurePosixPath(cell).name), ()))
            if numbers:
                return numbers.pop() if len(numbers) == 1 else AMBIGUOUS
        return MISSING

    def _from_root(self, cell: str) -> list[str]:
        """Paths from the root that a cell may mean, most likely first."""
        if cell.startswith("/"):
            paths = [os.path.relpath(cell, self.root)]
        else:
            paths = [os.path.normpath(cell), os.path.normpath(f"{self.prefix}/{cell}")]
        return list(dict.fromkeys(path.replace(os.sep, "/") for path in paths))

    def _add(self, path: str) -> int:
        self.names.append(path)
        self._exact[path] = len(self.names) - 1
        return self._exact[path]

    def _by(self, reading: Callable[[str], str]) -> Readings:
        found: Readings = {}
        for number, name in enumerate(self.names):
            found.setdefault(reading(name), []).append(number)
        return found

    # four looser readings, made when first needed
    @cached_property
    def _folded(self) -> Readings:
        return self._by(_folded)

    @cached_property
    def _stems(self) -> Readings:
        return self._by(lambda name: _folded(str(PurePosixPath(name).with_suffix(""))))

    @cached_property
    def _last(self) -> Readings:
        return self._by(lambda name: _folded(PurePosixPath(name).name))

    @cached_property
    def _last_stems(self) -> Readings:
        return self._by(lambda name: _folded(PurePosixPath(name).stem))


def _folded(text: str) -> str:
    """Without differences of case and of Unicode's forms of the same letters."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
