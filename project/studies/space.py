"""A search space as it stands in a YAML file, read without Optuna."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from project.cli import config_files
from project.cli.arguments import find_config
from project.errors import UserError, suggestion

KEYS = ("space", "trials", "pruning")
PRUNING = {"startup_trials": 5, "warmup_validations": 2}
"""Trials, and validations of a trial, before anything is stopped early."""


@dataclass(frozen=True)
class Setting:
    """What may be chosen for one key of the config.

    Args:
        key: Dotted, as typed after the dashes.
        choices: The values to choose from; empty for a range.
        low: Smallest value of a range.
        high: Largest value.
        log: Search a range by orders of magnitude.
        step: Distance between values of a range; None for any.
    """

    key: str
    choices: tuple[Any, ...] = ()
    low: float = 0
    high: float = 0
    log: bool = False
    step: float | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the values of the range are whole numbers."""
        return all(isinstance(each, int) for each in (self.low, self.high, self.step or 1))

    def examples(self) -> list[Any]:
        """Values that must be possible."""
        return list(self.choices) or [self.low, self.high]


@dataclass(frozen=True)
class Space:
    """What is searched.

    Args:
        path: The file it was read from.
        settings: One for each key.
        trials: How many, unless another number is typed.
        pruning: As in `PRUNING`; None never stops a trial early.
    """

    path: Path
    settings: list[Setting]
    trials: int
    pruning: dict[str, int] | None


def read(name: str) -> Space:
    """The space of a file.

    Raises:
        UserError: There is no such file, or something in it can't be meant.
    """
    path = find_config(name)
    if config_files.read(path) is None:  # it refuses repeated keys, and what is no mapping
        raise UserError(f"{path} is empty. It needs a key 'space'; see configs/search.")
    content = yaml.safe_load(path.read_text("utf-8"))
    for key in content:
        if key not in KEYS:
            raise UserError(f"{path}: there is no key {key!r}.{suggestion(str(key), KEYS)}")
    space = content.get("space")
    if not isinstance(space, dict) or not space:
        raise UserError(f"{path}: 'space' is {space!r}; it has a line for each key to search.")
    trials = content.get("trials", 20)
    if type(trials) is not int or trials < 1:
        raise UserError(f"{path}: trials is {trials!r}; it is a number from 1 on.")
    settings = [_setting(path, str(key), given) for key, given in space.items()]
    return Space(path, settings, trials, _pruning(path, content.get("pruning", {})))


def _setting(path: Path, key: str, given: Any) -> Setting:
    where, key = f"{path}: space {key}", key.removeprefix("--")
    if not isinstance(given, dict):
        raise UserError(
            f"{where} is {given!r}; it is {{low: 0.001, high: 0.1, log: true}} or "
            "{choices: [16, 32]}."
        )
    allowed = ("choices",) if "choices" in given else ("low", "high", "log", "step")
    for name in given:
        if name not in allowed:
            raise UserError(f"{where} has {name!r}.{suggestion(str(name), allowed)}")
    if "choices" in given:
        choices = given["choices"]
        if not isinstance(choices, list) or len(choices) < 2:
            raise UserError(f"{where}: choices is {choices!r}; it is a list of two or more.")
        return Setting(key, tuple(choices))
    return _range(where, key, given)


def _range(where: str, key: str, given: dict[str, Any]) -> Setting:
    for name in ("low", "high", *(["step"] if "step" in given else [])):
        if type(given.get(name)) not in (int, float):
            hint = " Write 1.0e-4, with a point, for YAML takes 1e-4 for text." if isinstance(
                given.get(name), str) else ""  # fmt: skip
            raise UserError(f"{where}: {name} is {given.get(name)!r}; it must be a number.{hint}")
    found = Setting(key, (), given["low"], given["high"], bool(given.get("log")), given.get("step"))
    if not found.low < found.high or (found.log and (found.low <= 0 or found.step)):
        raise UserError(
            f"{where} is {given}; low must be below high, and with log above 0 and without a step."
        )
    return found


def _pruning(path: Path, given: Any) -> dict[str, int] | None:
    if given is False or given is None:
        return None
    if not isinstance(given, dict) or not set(given) <= set(PRUNING):
        raise UserError(f"{path}: pruning is {given!r}; it is false, or has some of {PRUNING}.")
    return {**PRUNING, **given}
