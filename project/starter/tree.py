"""The files of a repository in memory: a project is worked out before anything is written."""

import re
import subprocess
from pathlib import Path

from project.errors import UserError

Tree = dict[str, str | bytes]
"""Contents by path from the root; bytes where a file is no text."""

_BLOCK = re.compile(
    r"^[ \t]*(?:#|<!--) starter: (?P<of>[\w, ]+?)(?: -->)?\n(?P<inner>.*?)"
    r"^[ \t]*(?:#|<!--) /starter(?: -->)?\n",
    re.DOTALL | re.MULTILINE,
)


def git(*words: str, folder: Path, env: dict[str, str] | None = None) -> str:
    """What a git command prints.

    Raises:
        UserError: It failed, or there is no git.
    """
    command = ["git", *words]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)
    except FileNotFoundError as error:
        raise UserError("This needs git, and there is none on the path.") from error
    if done.returncode:
        raise UserError(f"`{' '.join(command)}` in {folder} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def paths_of(root: Path) -> list[str]:
    """The files of a repository: those git knows, and new ones that it does not ignore."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", folder=root)
    paths = sorted({path for path in listed.split("\0") if path and (root / path).is_file()})
    if not paths:
        raise UserError(f"{root} is no git repository with files; clone the template first.")
    return paths


def read(root: Path) -> Tree:
    """All files of a repository."""
    tree: Tree = {}
    for path in paths_of(root):
        content = (root / path).read_bytes()
        try:
            tree[path] = content if b"\0" in content else content.decode("utf-8")
        except UnicodeDecodeError:
            tree[path] = content
    return tree


def write(tree: Tree, root: Path, source: Path) -> None:
    """Write all files; a file that can be executed in `source` can be executed here."""
    for path, content in tree.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
        if (source / path).is_file():
            target.chmod((source / path).stat().st_mode)


def chosen_blocks(text: str, problems: list[str]) -> str:
    """The text with the blocks of these problems, without their marks and without other blocks.

    A block stands between the lines `# starter: detection, segmentation` and `# /starter` (in
    Markdown `<!-- starter: … -->`). A block of `template` is in no project.
    """

    def inner(match: re.Match[str]) -> str:
        named = {word.strip() for word in match["of"].split(",")}
        return match["inner"] if named & set(problems) else ""

    return _BLOCK.sub(inner, text)
