"""Config files as they stand on the disk: with line numbers, before anything is made of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from project.errors import UserError
from project.runs import project_root


@dataclass(frozen=True)
class Entry:
    """A key or option with its value, and where it stands.

    Args:
        file: The config file; None for the command line.
        at: The key's node, for its line.
        value: The value's node; None for an option without a value.
    """

    file: Path | None
    at: Node | None
    value: Node | None

    def shown(self, key: str) -> str:
        """A key with the place where it stands, as the start of a message."""
        if self.file is None:
            return f"--{key}"
        root = project_root()
        file = self.file.relative_to(root) if self.file.is_relative_to(root) else self.file
        line = f", line {_line(self.at)}" if self.at else ""
        return f"{key} ({file}{line})"

    def below(self) -> "list[tuple[str, Entry]]":
        """The keys of a mapping, with their entries; none of any other value."""
        if not isinstance(self.value, MappingNode):
            return []
        return [
            (key.value, Entry(self.file, key if self.file else None, value))
            for key, value in self.value.value
            if isinstance(key, ScalarNode) and key.value != "<<"
        ]


def read(path: Path) -> MappingNode | None:
    """The content of a config file; None for an empty one.

    Raises:
        UserError: It is not text, not YAML, not a mapping, or has a key twice.
    """
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 text (byte {error.start}). Save it as UTF-8."
        ) from None
    except yaml.MarkedYAMLError as error:
        raise UserError(f"{path} is not valid YAML: {_in_words(error)}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if root is None or is_null(root):
        return None
    if not isinstance(root, MappingNode):
        raise UserError(
            f"{path} must hold keys with values, such as 'trainer:' and 'max_epochs: 3' indented "
            f"below it; what stands there is {described(root)}."
        )
    _refuse_repeated_keys(root, path, set())
    return root


def is_null(node: Node) -> bool:
    """Whether a value is YAML's nothing: left out, `null` or `~`."""
    return isinstance(node, ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def described(node: Node) -> str:
    """A value in words, for a message."""
    if isinstance(node, ScalarNode):
        return repr(node.value)
    return "a list" if isinstance(node, SequenceNode) else "a mapping"


def _line(node: Node) -> int:
    return node.start_mark.line + 1


def entries(entry: Entry, prefix: str = "") -> Iterator[tuple[str, Entry]]:
    """Every key below an entry, as a user types it: dotted, without `init_args`."""
    for key, inner in entry.below():
        parts = [part for part in key.split(".") if part != "init_args"]
        dotted = ".".join([*filter(None, [prefix]), *parts]).removesuffix("+")
        if parts:
            yield dotted, inner
        yield from entries(inner, dotted)


def _in_words(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
    if "'\\t'" in str(error.problem):
        return f"{place} has a tab where YAML wants spaces. Indent with spaces."
    problem = ", ".join(filter(None, [error.context, error.problem]))
    return (
        f"{place}: {problem}. Look there, and at the line before, for a bracket or quote that is "
        "not closed, a missing ':' or space after it, or an indentation that does not fit."
    )


def _refuse_repeated_keys(node: Node, path: Path, seen: set[int]) -> None:
    """PyYAML would silently take the last one."""
    if id(node) in seen:  # an alias of a node looked at before
        return
    seen.add(id(node))
    children = node.value if isinstance(node, SequenceNode) else []
    if isinstance(node, MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            children = [*children, value]
            if not isinstance(key, ScalarNode) or key.value == "<<":
                continue
            if key.value in lines:
                raise UserError(
                    f"{path} has the key {key.value!r} twice in one place, in the lines "
                    f"{lines[key.value]} and {_line(key)}. Keep one; the other would be ignored."
                )
            lines[key.value] = _line(key)
    for child in children:
        _refuse_repeated_keys(child, path, seen)
