"""The training runs of a study: where they lie, and how one is carried out."""

import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from project import runs
from project.cli.arguments import Arguments
from project.cli.config_errors import checked
from project.errors import Interrupted, UserError

FORWARDED = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, n)]
OURS = ("--resume", "--run.name", "--ckpt_path")


class Trainings:
    """What all runs of a study have in common.

    Args:
        verb: The study's, for messages.
        words: Config files and options of fit, as typed.

    Raises:
        UserError: Something in them can't be meant, or is the study's to say.
    """

    def __init__(self, verb: str, words: list[str]) -> None:
        for word in words:
            if word.partition("=")[0] in OURS:
                raise UserError(
                    f"{word} does not go with {verb}: it names its runs, and goes on where it "
                    "ended, by itself. --name NAME names them all."
                )
        self.words = words
        self.arguments = checked(Arguments(["fit", *words]))
        if not self.arguments.configs and self.arguments.option("--model") is None:
            raise UserError(f"{verb} needs to know what to train: --config configs/digits.yaml.")
        place = self.setting("run.root") or "runs"
        self.folder = runs.rooted(place) / (self.arguments.experiment or "default")
        """The experiment's."""

    def setting(self, key: str) -> Any:
        """The value of a key outside of the classes, as typed or from the files; None without."""
        found: Any = self.arguments.files
        for part in key.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        typed = self.arguments.option(f"--{key}")
        return found if typed is None else typed

    def fingerprint(self, without: tuple[str, ...] = ()) -> str:
        """Changes with the settings, so that other settings are another study.

        Args:
            without: Options that do not count.
        """
        options = dict(_pairs(self.arguments.options))
        kept = {k: v for k, v in options.items() if k not in (*without, "--run.root")}
        text = json.dumps([self.arguments.files, kept], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:6]

    def run(self, name: str) -> runs.Run:
        """The run of a name, there or not."""
        return runs.Run(self.folder / name)

    def train(self, name: str, options: list[str]) -> int:
        """Train a run to its end from wherever it stands; what is done is not done again.

        Args:
            name: The run's.
            options: Those that are its own.

        Returns:
            The exit code of the process that did it; 0 as well where nothing was left to do.
        """
        run, code = self.run(name), 0
        if "fit" not in run.metrics:
            where = ["--run.name", name, "--resume", "auto"]
            code = carried_out(["fit", *self.words, *options, *where])
        wants_test = (run.config.get("run") or {}).get("test_after_fit", False)
        if not code and wants_test and "test" not in run.metrics and "fit" in run.metrics:
            code = carried_out(["test", "--ckpt_path", str(run.path)])
        return code


def carried_out(words: list[str]) -> int:
    """Carry out a command of this project in a process of its own; returns its exit code.

    Nothing of one run is left for the next, and one that dies of hunger for memory takes none with
    it. Signals are passed on: the run saves itself, as when it is alone.

    Raises:
        Interrupted: A signal ended it.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "project", *words],
        start_new_session=True,  # a terminal would send it Ctrl-C as well, and twice is "at once"
    )
    received: list[int] = []

    def forward(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        process.send_signal(signum)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        print("stopped; the same command goes on where it ended", file=sys.stderr)
        raise Interrupted(received[-1])
    return code


def refuse_other(path: Path, fingerprint: str) -> None:
    """Make sure that what a file tells of was done with the same settings.

    Args:
        path: A study's result, with its `fingerprint`; it need not be there.
        fingerprint: That of now.

    Raises:
        UserError: It was not.
    """
    if path.is_file() and json.loads(path.read_text("utf-8")).get("fingerprint") != fingerprint:
        raise UserError(
            f"{path} is of other settings than these: their runs can't be counted together. "
            "Choose another --name, or leave --name out."
        )


def _pairs(words: list[str]) -> list[tuple[str, str]]:
    """Options with their values."""
    pairs: list[tuple[str, str]] = []
    rest = list(words)
    while rest:
        option, equals, value = rest.pop(0).partition("=")
        if not equals and rest:
            value = rest.pop(0)
        pairs.append((option, value))
    return pairs
