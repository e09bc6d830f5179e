"""The package under another name, wherever it is named."""

import ast
import json
import re

from project.starter.choice import OLD, imports, parse
from project.starter.tree import Tree

_RULES = [
    (rf"(?m)(\b(?:import|from)[ \t]+){OLD}\b(?!-)", r"\1{new}"),  # import project
    (rf"(?<![\w.\-/\[]){OLD}(?=\.(?:[A-Za-z_*]|[\"'`{{]))", "{new}"),  # project.x.Y, f"project.{x}"
    (rf"(?<![\w\-])(?<!\w[./]){OLD}(?=/)", "{new}"),  # project/x.py
    (rf"(?<=\.\./){OLD}(?=/)", "{new}"),  # ../project/x.py
    (rf"(-m[ \t]+){OLD}\b", r"\1{new}"),  # python -m project
    (rf"(?<=`){OLD}(?= [a-z]|`)", "{new}"),  # `project fit`
    (rf"(?<=Warning:){OLD}\b", "{new}"),  # a filter of warnings
    # "project", but not the table of pyproject.toml: parsed["project"], {"project": {}}
    (rf"(?<![\w\])]\[[\"'])(?<=[\"']){OLD}(?=\*?[\"'])(?![\"']: [\[{{{{])", "{new}"),
]
_MARK = "\0variable\0"
RULES = [(re.compile(pattern), new) for pattern, new in _RULES]


def renamed(text: str, new: str) -> str:
    """The text with the package's name replaced, and the word left alone."""
    for rule, replacement in RULES:
        text = rule.sub(replacement.format(new=new), text)
    return text


def renamed_code(text: str, new: str) -> str:
    """The same of Python, where a variable may have the word for its name."""
    if OLD not in text:
        return text
    names = [
        node for node in ast.walk(parse(text)) if isinstance(node, ast.Name) and node.id == OLD
    ]
    package = any(name is None and module.split(".")[0] == OLD for module, name in imports(text))
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    for node in sorted(names, key=lambda n: (n.lineno, n.col_offset), reverse=True):
        line, column = lines[node.lineno - 1], node.col_offset
        word = new if package else _MARK
        lines[node.lineno - 1] = line[:column] + word.encode() + line[column + len(OLD) :]
    return renamed(b"".join(lines).decode(), new).replace(_MARK, OLD)


def rename(tree: Tree, new: str) -> Tree:
    """All files, with new names and new contents."""
    return {_path(path, new): _content(path, content, new) for path, content in tree.items()}


def _path(path: str, new: str) -> str:
    return new + path.removeprefix(OLD) if path.startswith(f"{OLD}/") else path


def _content(path: str, content: str | bytes, new: str) -> str | bytes:
    if isinstance(content, bytes):
        return content
    if path.endswith(".ipynb"):
        return _notebook(content, new)
    if path == "requirements.lock":
        return content.replace(f"{OLD} (pyproject.toml", f"{new} (pyproject.toml")
    if path == "pyproject.toml":
        content = re.sub(rf"(?m)^{OLD}(?= = )", new, content)  # the command
    return renamed_code(content, new) if path.endswith(".py") else renamed(content, new)


def _notebook(content: str, new: str) -> str:
    book = json.loads(content)
    for cell in book["cells"]:
        source = cell["source"]
        text = renamed("".join(source), new)
        cell["source"] = text if isinstance(source, str) else text.splitlines(keepends=True)
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"
