"""What a project says of itself: its name, description, author and licence."""

import json
import re

from project.starter.answers import FILE, Answers, written
from project.starter.choice import OLD
from project.starter.tree import Tree


def of_its_own(tree: Tree, answers: Answers) -> Tree:
    """The files that speak of the project itself."""
    return {
        FILE: written(answers),
        "README.md": _readme(str(tree["README.md"]), answers),
        "LICENSE": _licence(str(tree["LICENSE"]), answers),
        "pyproject.toml": _pyproject(str(tree["pyproject.toml"]), answers),
    }


def _readme(text: str, answers: Answers) -> str:
    """With another heading and first paragraph."""
    heading = f"# {answers.name}\n\n{answers.description}\n"
    text = re.sub(r"\A# .*?\n\n.*?\n(?=\n)", lambda _: heading, text, flags=re.DOTALL)
    if answers.licence == "none":
        text = re.sub(r"\n*Licence: .*\n*\Z", "\n", text)
    return text


def _licence(text: str, answers: Answers) -> str:
    if answers.licence == "none":
        return f"Copyright {answers.author}. All rights reserved.\n"
    whose = re.compile(r"^(Copyright \(c\) \d+) .*$", re.MULTILINE)
    return whose.sub(lambda match: f"{match[1]} {answers.author}", text)


def _pyproject(text: str, answers: Answers) -> str:
    author = json.dumps(answers.author, ensure_ascii=False)  # a JSON string is a TOML string
    lines = {
        "name": json.dumps(answers.name),
        "description": json.dumps(answers.description, ensure_ascii=False),
        "authors": f"[{{ name = {author} }}]",
    }
    for key, value in lines.items():
        text = re.sub(rf"(?m)^{key} = .*$", lambda _, k=key, v=value: f"{k} = {v}", text, count=1)
    if answers.licence == "none":
        text = re.sub(r"(?m)^license(?:-files)? = .*\n", "", text)
    if len(answers.name) > len(OLD):
        reason = "the formatter wraps code; prose that names the package grew with its name"
        text = re.sub(
            r"(?m)^ignore = \[\n", lambda m: f'{m[0]}  "E501", # {reason}\n', text, count=1
        )
    return text
