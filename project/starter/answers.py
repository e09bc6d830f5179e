"""What a project is to be: asked for, or given; and kept in the project for updates."""

import importlib.util
import json
import keyword
import re
import sys
import tomllib
from dataclasses import asdict, dataclass, fields
from typing import Any

from project.errors import UserError, suggestion
from project.starter.choice import table

FILE = ".template.toml"
LICENCES = ("MIT", "none")
FOLDERS = ("tests", "configs", "notebooks", "docs", "benchmarks", "tools", "runs")


@dataclass(frozen=True)
class Answers:
    """What was asked, and where the project comes from.

    Args:
        name: Of the package, the distribution and the command.
        problems: Names of the problems it keeps.
        description: One sentence.
        author: Who holds the copyright.
        licence: `MIT`, or `none` for all rights reserved.
        template: Path or address of the repository it was made from.
        commit: The template's commit; empty if it is not known.
        tree: The template's files as git's tree, where the commit is not known.
    """

    name: str
    problems: tuple[str, ...]
    description: str = "A PyTorch Lightning project: one config is one experiment."
    author: str = "The authors"
    licence: str = "MIT"
    template: str = ""
    commit: str = ""
    tree: str = ""


def check_name(name: str) -> None:
    """Whether it can be a package's name here.

    Raises:
        UserError: It can't, or something of that name is installed.
    """
    allowed = "Allowed: lower-case letters, digits and _, beginning with a letter, 30 at most."
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,29}", name) or keyword.iskeyword(name):
        raise UserError(f"{name!r} can't be a package's name. {allowed}")
    if name in FOLDERS:
        raise UserError(f"{name!r} is the name of another folder of the project; take another.")
    if name in sys.stdlib_module_names or importlib.util.find_spec(name) is not None:
        raise UserError(f"There is a module {name!r} already, which it would hide; take another.")


def check_problems(words: str) -> tuple[str, ...]:
    """The problems named in `a,b`, in the table's order.

    Raises:
        UserError: One is not known, or none is named.
    """
    known = table()
    given = [word.strip() for word in words.split(",") if word.strip()]
    given = list(known["problems"]) if given == ["all"] else given
    for word in given:
        if word not in known["problems"] and word not in known["aliases"]:
            raise UserError(
                f"There is no problem {word!r}.{suggestion(word, ['all', *known['problems']])}"
            )
    if not given:
        raise UserError(f"Name a problem. Allowed: all, {', '.join(known['problems'])}.")
    chosen = {known["aliases"].get(word, word) for word in given}
    return tuple(name for name in known["problems"] if name in chosen)


def check_licence(word: str) -> str:
    """The licence as it is written.

    Raises:
        UserError: It is not known.
    """
    for licence in LICENCES:
        if word.lower() == licence.lower():
            return licence
    raise UserError(f"There is no licence {word!r} here.{suggestion(word, LICENCES)}")


def written(answers: Answers) -> str:
    """The file of answers, as TOML."""
    lines = [
        f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in asdict(answers).items()
    ]
    return "\n".join(["# Where this project comes from; `make update` reads it.", *lines, ""])


def parsed(text: str) -> Answers:
    """The answers in a file; one that a later version added has its default."""
    content: dict[str, Any] = tomllib.loads(text)
    problems = tuple(content.pop("problems"))
    known = {each.name for each in fields(Answers)}
    return Answers(
        problems=problems, **{key: value for key, value in content.items() if key in known}
    )
