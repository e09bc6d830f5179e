"""A command taken apart, before anything heavy is imported."""

from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from project import runs
from project.errors import UserError, suggestion
from project.runs import project_root

SHORT = {"--init_from": "--run.init_from", "--init_head": "--run.init_head"}
"""What is typed often is typed short."""


class Arguments:
    """A command taken apart: what must be known before it is parsed.

    Args:
        args: Verb and options as typed.

    Raises:
        UserError: A config file does not exist.
    """

    def __init__(self, args: list[str]) -> None:
        self.typed = args
        self.verb = args[0]
        self.configs: list[Path] = []
        self.resume: str | None = None
        self.options: list[str] = []  # all the rest, to come after the configs
        rest = args[1:]
        while rest:
            option, equals, value = rest.pop(0).partition("=")
            if option in ("--config", "-c"):
                if not equals:
                    value = _value(option, rest)
                self.configs.append(find_config(value))
            elif option == "--resume":
                follows = bool(rest) and not rest[0].startswith("-")
                self.resume = value if equals else rest.pop(0) if follows else "latest"
            else:
                self.options.append(SHORT.get(option, option) + equals + value)
        if self.resume and self.verb != "fit":
            raise UserError(f"--resume goes with fit, not with {self.verb}.")
        if self.option("--run.init_from") is not None:
            self._check_start()

    def _check_start(self) -> None:
        if self.verb != "fit":
            raise UserError(f"--init_from goes with fit, not with {self.verb}: try --ckpt_path.")
        if self.resume not in (None, "auto") or self.option("--ckpt_path") is not None:
            raise UserError(
                "--init_from starts a new training with the weights of a file; --resume and "
                "--ckpt_path go on with an old one, its optimizer and position. Give one of them."
            )

    @cached_property
    def files(self) -> dict[str, Any]:
        """What the config files say, merged."""
        content: dict[str, Any] = {}
        for path in self.configs:
            content = runs.merged(content, yaml.safe_load(path.read_text("utf-8")) or {})
        return content

    @property
    def experiment(self) -> str | None:
        """What the command calls the experiment, if it does."""
        typed = self.option("--run.experiment")
        if typed or not self.configs:
            return typed
        named = (self.files.get("run") or {}).get("experiment")
        return named or self.configs[0].stem

    def option(self, name: str) -> str | None:
        """The value typed for an option, such as `--ckpt_path`; the last one if several."""
        found = None
        for position, word in enumerate(self.options):
            if word == name and position + 1 < len(self.options):
                found = self.options[position + 1]
            elif word.startswith(name + "="):
                found = word.partition("=")[2]
        return found


def _value(option: str, rest: list[str]) -> str:
    if not rest:
        raise UserError(f"{option} needs a value, such as {option} configs/digits.yaml.")
    return rest.pop(0)


def find_config(name: str) -> Path:
    """An existing config file: from the working directory, else from the project's root.

    Raises:
        UserError: It is in neither.
    """
    given = Path(name).expanduser()
    tried = list(dict.fromkeys(path.resolve() for path in (given, project_root() / given)))
    for path in tried:
        if path.is_file():
            return path
    configs = [
        str(path.relative_to(project_root()))
        for path in (project_root() / "configs").rglob("*.yaml")
    ]
    raise UserError(
        f"There is no config file {name!r}; tried {', '.join(map(str, tried))}."
        + suggestion(name, configs)
    )
