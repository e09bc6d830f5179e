"""Documents, dependencies and notebooks without what is gone."""

import json
import re
from pathlib import PurePosixPath

from project.starter.choice import OLD
from project.starter.references import Gone
from project.starter.tree import Tree

_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
_ITEM = re.compile(r"^(\s*(?:[-*]|\d+\.) )")


def prune_notebooks(tree: Tree, gone: Gone) -> None:
    """Drop notebooks that use what is gone; a course has no use for half of one."""
    for path in [path for path in tree if path.endswith(".ipynb")]:
        cells = json.loads(str(tree[path]))["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells)
        named = re.findall(r"^from (\S+) import (.+)$", code, re.MULTILINE)
        used = {(module, name.strip()) for module, names in named for name in names.split(",")}
        if used & gone.names or {m for m, _ in used} & gone.modules or gone.parts.search(code):
            del tree[path]


def prune_benchmark_results(tree: Tree) -> None:
    """Drop what was measured by a benchmark that is gone."""
    for path in [path for path in tree if path.startswith("benchmarks/results/")]:
        if f"benchmarks/{PurePosixPath(path).stem}.py" not in tree:
            del tree[path]


def prune_documents(tree: Tree, gone: Gone) -> None:
    """Drop links to what is gone: with the row, item or line that is about nothing else."""
    while True:
        before = len(tree)
        for path in [path for path in tree if path.endswith(".md")]:
            tree[path] = _pruned(str(tree[path]), path, tree, gone)
        if len(tree) == before:
            return


def _pruned(text: str, path: str, tree: Tree, gone: Gone) -> str:
    units: list[str] = []
    fenced = False
    for line in text.splitlines(keepends=True):
        continues = line.startswith(" ") and units and _ITEM.match(units[-1]) and not fenced
        if continues:
            units[-1] += line
        else:
            units.append(line)
        fenced ^= line.startswith("```")
    kept = [unit for unit in (_unit(unit, path, tree, gone) for unit in units) if unit]
    return re.sub(r"```\w*\n```\n\n?", "", "".join(kept))


def _unit(unit: str, path: str, tree: Tree, gone: Gone) -> str:
    """A row, item or line of a document, or nothing if it is about what is gone."""
    dead = [m for m in _LINK.finditer(unit) if not _leads(m[1], m[2], path, tree)]
    if unit.startswith("|"):
        if not dead:
            return "" if gone.parts.search(unit) else unit
        cells = unit.split(" | ")
        shorter = [_without_links(cell, dead) for cell in cells]
        empty = [not s.strip(" |\n") for c, s in zip(cells, shorter, strict=True) if c != s]
        return "" if any(empty) else " | ".join(shorter)
    if _ITEM.match(unit) and (dead or gone.parts.search(unit)):
        return ""
    for match in dead:
        unit = unit.replace(match[0], match[1])
    return "" if gone.parts.search(unit) and "python -m" in unit else unit


def _without_links(cell: str, dead: list[re.Match[str]]) -> str:
    """The cell without these links; a cell of other words keeps the words of the link."""
    found = [match for match in dead if match[0] in cell]
    if not found:
        return cell
    rest = _LINK.sub("", cell)
    if re.search(r"\w{3}", rest):
        for match in found:
            cell = cell.replace(match[0], match[1])
        return cell
    links = [m[0] for m in _LINK.finditer(cell) if m[0] not in {each[0] for each in found}]
    ending = re.search(r"\s*\|?\s*$", cell)
    start = re.match(r"^\|? ?", cell)
    return (start[0] if start else "") + ", ".join(links) + (ending[0] if ending else "")


def _leads(text: str, target: str, path: str, tree: Tree) -> bool:
    if target.startswith(("http", "#", "mailto")):
        return True
    parts: list[str] = []
    for part in (PurePosixPath(path).parent / target.partition("#")[0]).parts:
        if part == "..":
            if parts:
                parts.pop()
        else:
            parts.append(part)
    there = "/".join(parts)
    if there not in tree:
        return not there or any(each.startswith(there.rstrip("/") + "/") for each in tree)
    name = text.strip("`")
    if there.startswith("tests/") and name.isidentifier():
        return f"def {name}(" in str(tree[there])
    return True


def prune_phony(tree: Tree) -> None:
    """Drop the targets that are gone from the Makefile's list of targets."""
    text = str(tree["Makefile"])
    targets = set(re.findall(r"^([a-zA-Z0-9_-]+):", text, re.MULTILINE))
    head, mark, listed = text.partition(".PHONY:")
    words = [word for word in re.split(r"( |\s+\\?\s*)", listed) if word]
    kept = [w for n, w in enumerate(words)
            if not w.strip(" \\\n\t") or w in targets]  # fmt: skip
    tree["Makefile"] = (
        head + mark + re.sub(r"(?<=\S)  +(?=\S)|(?<=\t) +", " ", "".join(kept)).replace("\t ", "\t")
    )


def prune_dependencies(tree: Tree, before: str, after: str, names: dict[str, str]) -> None:
    """Drop the dependencies of which files spoke that are gone, and no kept file speaks.

    Args:
        tree: The files.
        before: The package's code before anything went.
        after: The same now.
        names: The module of a distribution that has another name.
    """
    lost = set(re.findall(r"\w+", before)) - set(re.findall(r"\w+", after))
    lines, dropped, lock = [], [], str(tree["requirements.lock"])
    for line in str(tree["pyproject.toml"]).splitlines(keepends=True):
        match = re.match(r'\s+"([A-Za-z0-9._-]+)[^"]*",? +#', line)
        module = names.get(match[1].lower(), match[1].replace("-", "_")) if match else None
        pinned = match and re.search(rf"^{re.escape(match[1].lower())}==", lock, re.MULTILINE)
        if pinned and module in lost:
            dropped.append(match[1].lower())
        else:
            lines.append(line)
    tree["pyproject.toml"] = "".join(lines)
    tree["requirements.lock"] = _unlocked(lock, set(dropped))


def _unlocked(lock: str, dropped: set[str]) -> str:
    """The lock without these direct dependencies, and without what only they needed."""
    head, *parts = re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)
    blocks = [(re.split(r"[=\[ ]", part, maxsplit=1)[0], part) for part in parts]
    needed = {name: set() for name, _ in blocks}
    for name, part in blocks:
        notes = part[part.rfind("--hash") :]
        needed[name] |= set(re.findall(r"^    #(?: via)? +([\w.-]+.*)$", notes, re.MULTILINE))
    for name in dropped & set(needed):
        needed[name] -= {f"{OLD} (pyproject.toml)"}
    gone: set[str] = set()
    while found := {name for name, by in needed.items() if name not in gone and by <= gone}:
        gone |= found
    return head + "".join(_without_reasons(part, gone) for name, part in blocks if name not in gone)


def _without_reasons(block: str, gone: set[str]) -> str:
    lines = block.splitlines(keepends=True)
    left = [
        line
        for line in lines
        if not re.match(rf"    #   (?:{'|'.join(map(re.escape, gone)) or '(?!)'})\n", line)
    ]
    reasons = [n for n, line in enumerate(left) if line.startswith("    #   ")]
    if len(left) != len(lines) and len(reasons) == 1:
        at = reasons[0]
        left[at - 1 : at + 1] = [left[at].replace("#   ", "# via ")]
    return "".join(left)
