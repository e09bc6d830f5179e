"""`new`, `rename`, and what an update calls: `update` and `render`."""

import argparse
import sys
from pathlib import Path

from project.errors import UserError
from project.parsing import Parser
from project.runs import project_root
from project.starter import merging
from project.starter.answers import Answers, check_licence, check_name, check_problems, parsed
from project.starter.choice import table
from project.starter.making import check_target, make, rename_in_place
from project.starter.rendering import render


def parser(verb: str) -> Parser:
    """The options of a verb."""
    about = {
        "new": "Make a project of your own from this repository, with the problems you choose.",
        "rename": "Turn this checkout itself into a project of your own.",
        "update": "Merge this version of the template into a project (`make update` there).",
        "render": "Write a project's files, as an update needs them.",
    }
    options = Parser(prog=f"python -m project {verb}", description=about[verb])
    if verb in ("update", "render"):
        options.add_argument("folder", type=Path, help="the project")
        needed = "--address" if verb == "update" else "--answers"
        options.add_argument(
            needed, required=True, help="where the template was cloned from, or a file"
        )
        return options
    if verb == "new":
        options.add_argument("dest", type=Path, nargs="?", help="a new folder, such as ../churn")
        options.add_argument("--no-git", action="store_true", help="no repository, no first commit")
        options.add_argument("--name", help="of the package and the command, such as churn_model")
    else:
        options.add_argument("name", nargs="?", help="of the package, such as churn_model")
    known = table()["problems"]
    options.add_argument("--problems", help=f"what to keep: all, or some of {', '.join(known)}")
    options.add_argument("--author", help="who holds the copyright")
    options.add_argument("--description", help="one sentence")
    options.add_argument("--licence", help="MIT, or none")
    options.add_argument(
        "--yes", action="store_true", help="ask nothing; what is not given is the default"
    )
    return options


def run(args: list[str]) -> None:
    """Run one of the commands.

    Args:
        args: Verb and options as typed.
    """
    verb, words = args[0], args[1:]
    options = parser(verb).parse_args(words)
    root = project_root()
    if verb == "update":
        merging.update(root, options.folder.resolve(), options.address)
    elif verb == "render":
        render(root, options.folder, parsed(Path(options.answers).read_text("utf-8")))
    elif verb == "rename":
        answers = _answers(options)
        rename_in_place(root, answers)
        print(f"This is {answers.name} now: look (git status), make test, git add -A, git commit.")
    else:
        dest = options.dest or Path(
            _asked("DEST", "a new folder, such as ../churn", None, options.yes)
        )
        check_target(dest)
        make(root, dest, _answers(options), with_git=not options.no_git)
        print(f"{dest} is ready: cd {dest}, then make train.")


def _answers(options: argparse.Namespace) -> Answers:
    usual = Answers(name="", problems=())
    missing = [f"--{key}" for key in ("name", "problems") if not getattr(options, key)]
    if missing and (options.yes or not sys.stdin.isatty()):
        missing = ["NAME" if w == "--name" and not hasattr(options, "dest") else w for w in missing]
        raise UserError(
            f"{' and '.join(missing)} not given, and nobody to ask. Problems: all, or some of "
            f"{', '.join(table()['problems'])}, with commas between."
        )
    if options.name:
        check_name(options.name)
    name = options.name or _asked("name", "of the package, such as churn_model", None, options.yes)
    check_name(name)
    if not options.problems:
        for key, problem in table()["problems"].items():
            print(f"  {key:22} {problem['title']}")
    problems = check_problems(
        options.problems or _asked("problems", "with commas", "all", options.yes)
    )
    given = {
        key: getattr(options, key) or _asked(key, "", getattr(usual, key), options.yes)
        for key in ("description", "author", "licence")
    }
    given["licence"] = check_licence(given["licence"])
    return Answers(name=name, problems=problems, **given)


def _asked(what: str, hint: str, default: str | None, yes: bool) -> str:
    """What is typed, or the default; the default at once where nobody can be asked."""
    if yes or not sys.stdin.isatty():
        if default is None:
            raise UserError(f"{what} not given, and nobody to ask: {hint}.")
        return default
    shown = f"{what} ({hint})" if hint else what
    said = input(f"{shown}{f' [{default}]' if default else ''}: ").strip()
    return said or default or _asked(what, hint, default, yes)
