"""What a command starts from: the run, its checkpoint, and the order in which settings win."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from project import runs
from project.checkpoints import read_checkpoint, refuse_unknown_classes
from project.cli.arguments import Arguments
from project.errors import NothingToDo, UserError


class Start:
    """What a command starts from: a checkpoint, the run it belongs to, their config.

    Args:
        arguments: The command.
    """

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments
        self.resumes_by_itself = arguments.resume == "auto"
        self.root = runs.rooted(arguments.option("--run.root") or "runs")
        self.run: runs.Run | None = None  # where it begins: a resumed run, or that of a checkpoint
        self.checkpoint: Path | None = None
        if runs.is_first_process():
            os.environ.pop(runs.VARIABLE, None)  # of an earlier command in this process
        self.made: runs.Run | None = None  # a directory that the command has made
        self.files = arguments.files
        self._locate()
        self.config: dict[str, Any] = {}
        if self.run is not None:  # what a user's own run recorded is the user's own
            self.config = self.run.config
        elif self.checkpoint is not None:
            self.config = read_checkpoint(self.checkpoint).get("config", {})
            refuse_unknown_classes({k: self.config.get(k) for k in ("model", "data")})
        if not self.config and not arguments.configs and not arguments.option("--model"):
            raise UserError(
                f"{arguments.verb} needs to know what to work on: --config configs/digits.yaml, or "
                "--ckpt_path with a checkpoint of a run."
            )

    @property
    def experiment(self) -> str | None:
        """What the command calls the experiment, if it does."""
        return self.arguments.experiment

    @property
    def writes_to(self) -> runs.Run | None:
        """The run that the command trains, once its directory is known."""
        return self.made or (self.run if self.resumes else None)

    @property
    def _trains(self) -> bool:
        return self.arguments.verb in ("fit", "check", "tune")

    @property
    def resumes(self) -> bool:
        """Whether the run goes on in its own directory."""
        return self.arguments.resume is not None

    def _locate(self) -> None:
        """Find the checkpoint, and the run it belongs to."""
        verb, given = self.arguments.verb, self.arguments.option("--ckpt_path")
        if self.arguments.resume == "auto":
            self._resume_if_begun()
        if self.arguments.resume is not None:
            self.run = runs.find(self.root, self.arguments.resume, self.experiment)
            self.checkpoint = self._whole_checkpoint(self.run, given or "last")
        elif given not in (None, "best", "last"):
            self.checkpoint = self._checkpoint_at(given)
            self.run = runs.of_checkpoint(self.checkpoint)
        elif given or not self._trains:
            which = given or "best"
            candidates = runs.runs_in(self.root, self.experiment)
            usable = [run for run in candidates if run.checkpoint(which).is_file()]
            if not usable:
                raise UserError(
                    f"{verb} needs a trained model, and no run in "
                    f"{self.root / (self.experiment or '')} has a {which} checkpoint. Train one "
                    "with fit first, or give --ckpt_path a file."
                )
            self.run = usable[-1]
            self.checkpoint = self.run.checkpoint(which)

    def _resume_if_begun(self) -> None:
        """Resume the run of the given name if it has a checkpoint, else start it."""
        name = self.arguments.option("--run.name")
        if name is None:
            raise UserError(
                "--resume auto goes on with a run if it has begun, so it needs the run's name: "
                '--run.name NAME, such as --run.name "$SLURM_JOB_ID".'
            )
        if runs.made_by_first_process():
            self.arguments.resume = None
            return
        run = runs.Run(self.root / (self.experiment or "default") / name)
        if run.checkpoint("last").is_file():
            self.arguments.resume = str(run.path)
            return
        self.arguments.resume = None
        if run.path.is_dir():
            runs.discard(run)  # it ended before its first checkpoint

    def _whole_checkpoint(self, run: runs.Run, which: str) -> Path:
        """A run's checkpoint, after making sure that it can be read.

        Raises:
            UserError: It is missing or damaged; names the next best.
        """
        path = run.checkpoint(which)
        if not path.is_file():
            raise UserError(
                f"The run {run.shown()} has no {which} checkpoint to go on from: it ended before "
                "its first one. Start it again with fit."
            )
        try:
            read_checkpoint(path)
        except UserError as error:
            other = run.checkpoint("last" if which == "best" else "best")
            try:
                epoch = read_checkpoint(other)["epoch"]
            except UserError:
                raise error from None
            raise UserError(
                f"{error} {other.name}, of epoch {epoch + 1}, is whole: go on from it with "
                f"--resume {run.shown()} --ckpt_path {other.stem}"
            ) from None
        return path

    def _checkpoint_at(self, given: str) -> Path:
        """A checkpoint file, or the right one of a run's directory."""
        which = "last" if self.arguments.verb == "fit" else "best"
        tried = [Path(given).expanduser().resolve(), runs.rooted(given)]
        for path in tried:
            file = runs.Run(path).checkpoint(which) if path.is_dir() else path
            if file.is_file():
                return file
        raise UserError(f"There is no checkpoint {given!r}; tried {', '.join(map(str, tried))}.")

    def refuse_finished(self, max_epochs: int | None, max_steps: int = -1) -> None:
        """Refuse to resume a run that has nothing left to do.

        Raises:
            UserError: The run has trained so many epochs or steps already; `NothingToDo` where the
                command was to resume it or not, as the case may be.
        """
        if not (self.resumes and self.run and self.checkpoint):
            return
        checkpoint = read_checkpoint(self.checkpoint)
        epochs = checkpoint["loops"]["fit_loop"]["epoch_progress"]["current"]["processed"]
        refuse = NothingToDo if self.resumes_by_itself else UserError
        for what, done, end in (
            ("epoch", epochs, max_epochs),
            ("step", checkpoint["global_step"], max_steps),
        ):
            if end is not None and 0 <= end <= done:
                raise refuse(
                    f"The run {self.run.shown()} is finished: {what} {done} of {end}. Raise "
                    f"--trainer.max_{what}s to train on."
                )

    def _other(self, part: str) -> str | None:
        """The class that the command says for a part of the config, if it is not the checkpoint's.

        The settings of one class mean nothing to another.
        """
        typed = self.arguments.option(f"--{part}") or self.arguments.option(f"--{part}.class_path")
        said, known = typed or _class_of(self.files.get(part)), _class_of(self.config.get(part))
        if not said or not known or said.rpartition(".")[2] == known.rpartition(".")[2]:
            return None
        return said

    def parsed_arguments(self, scratch: Path) -> list[str]:
        """The arguments in the order in which they win: what is typed beats everything.

        A resumed run keeps its settings, but for what has changed in the config files since. Other
        training takes the files before the checkpoint. For all else the network must be the one
        that was trained, so the checkpoint's beats the files'.

        Args:
            scratch: A directory for the files in between.
        """
        before, files, after = {}, self.files, {}
        if self.resumes and self.run:
            before = {key: value for key, value in self.config.items() if key != "run"}
            for part in filter(self._other, ("model", "data")):
                raise UserError(
                    f"The run {self.run.shown()} was trained with {_class_of(self.config[part])}; "
                    f"{self._other(part)} is said now. Resume it without that, or start a new run."
                )
            begun = self.config.get("run") or {}  # all else of it is about the directory
            before["run"] = {k: v for k, v in begun.items() if k.startswith("init_")}
            files = runs.changes(self.run.environment.get("config_files"), files)
        elif self.config:
            before = {} if self._other("data") else {"data": self.config["data"]}
            network = {"model": self.config["model"]}
            before, after = (before | network, {}) if self._trains else (before, network)
        words = [self.arguments.verb]
        for name, part in {"before": before, "files": files, "after": after}.items():
            path = scratch / f"{name}.yaml"
            path.write_text(yaml.safe_dump(part, sort_keys=False), encoding="utf-8")
            paths = [path] if part else []
            if name == "files" and not self.resumes:
                paths = self.arguments.configs  # as they are: the parser knows how classes merge
            words += [word for each in paths for word in ("--config", str(each))]
        options = self.arguments.options
        if self.resumes:
            recorded = (self.config.get("trainer") or {}).get("callbacks") or []
            recorded = recorded if isinstance(recorded, list) else [recorded]
            options = _without_recorded(options, [each["class_path"] for each in recorded])
        if self.checkpoint is not None:
            options = [*_without(options, "--ckpt_path"), "--ckpt_path", str(self.checkpoint)]
        return [*words, *options]


def _class_of(part: Any) -> str | None:
    """The class that a part of a config says, by its class path or alone."""
    return part.get("class_path") if isinstance(part, dict) else part


def _without_recorded(options: list[str], callbacks: list[str]) -> list[str]:
    """Options that do not append, with its settings, a callback that the run has already."""
    names = {path.rpartition(".")[2] for path in callbacks}
    kept: list[str] = []
    words, dropping = iter(options), False
    for word in words:
        option, equals, value = word.partition("=")
        given = [word] if equals or not option.startswith("--") else [word, *_next(words)]
        if option == "--trainer.callbacks+":
            name = value if equals else given[-1]
            dropping = name.rpartition(".")[2] in names
        elif not option.startswith("--trainer.callbacks."):
            dropping = False
        kept += [] if dropping else given
    return kept


def _next(words: Iterator[str]) -> list[str]:
    return [word for word in [next(words, None)] if word is not None]


def _without(options: list[str], name: str) -> list[str]:
    kept: list[str] = []
    words = iter(options)
    for word in words:
        if word == name:
            next(words, None)
        elif not word.startswith(name + "="):
            kept.append(word)
    return kept
