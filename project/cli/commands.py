"""The verbs that need torch: Lightning's command line with its traps absorbed."""

import importlib
import inspect
import os
import tempfile
import time
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Literal

import lightning as L
import torch
from jsonargparse import ArgumentError, Namespace
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.plugins import Precision as PrecisionPlugin
from lightning.pytorch.utilities.exceptions import MisconfigurationException

import project.data
import project.models
import project.tasks  # noqa: F401 - makes short class names known to the parser
from project import hardware, runs, tune
from project.batches import MEANINGS, SIZES
from project.callbacks import (
    Averaging,
    Checkpoint,
    Clipping,
    DataWait,
    Freezing,
    HalfPrecision,
    Hints,
    History,
    Interruption,
    NonFinite,
    Pictures,
    Predictions,
    Progress,
    Pruning,
    Record,
    Samples,
)
from project.checkpoints import AtomicCheckpointIO, start_from
from project.checks import CHECKS, Report
from project.checks.preflight import Preflight
from project.cli.arguments import Arguments
from project.cli.parser_errors import explain
from project.cli.screen import listed, own_words, python, quiet, say
from project.cli.start import Start
from project.data import DataModule
from project.errors import ChecksFailed, Interrupted, UserError
from project.export import FORMATS, bundle
from project.hardware import MemoryFormat, Mode, Precision
from project.optim import Plateau
from project.tasks import Task
from project.trainer import Trainer


@dataclass
class RunSettings:
    """Where the run's directory is made: `<root>/<experiment>/<name>`.

    Args:
        root: Where all runs lie; relative to the project's root.
        experiment: The directory in between; by default the name of the first config file.
        name: The run's own name; by default the time and four random letters.
        init_from: Weights to start fit with, and nothing else: a run's directory (its best
            checkpoint), a checkpoint, or another weights file. They must fit.
        init_head: Whether to `keep` the head of those weights, or to `replace` it by a new one.
        test_after_fit: Test the best checkpoint when training ends.
        export_after_fit: Export the best checkpoint when training ends.
        preflight: Look for what would spoil the training before it starts; see docs/checks.md.
        num_threads: CPU threads of torch's operations; None leaves torch's choice. Small models are
            faster with 1, above all on a shared machine, and then give the same numbers everywhere.
        precision: `fp32`, `bf16` or `fp16` (with a loss scaler); `auto` takes what the hardware
            does well: bf16 or fp16 on a GPU, fp32 on a CPU. `trainer.precision` has more of them.
        mode: `fast` takes the quickest algorithms, `deterministic` only those that give the same
            bits every time; on a CPU both do.
        compile: Backend of torch.compile for the network, such as `inductor`; None leaves it as it
            is. The first steps then take longer.
        memory_format: `channels_last` lays the network's images out pixel by pixel, which is
            faster for convolutions in half precision on a GPU.
    """

    root: str = "runs"
    experiment: str | None = None
    name: str | None = None
    init_from: str | None = None
    init_head: Literal["keep", "replace"] = "keep"
    test_after_fit: bool = True
    export_after_fit: bool = False
    preflight: bool = True
    num_threads: int | None = None
    precision: Precision = "auto"
    mode: Mode = "fast"
    compile: str | None = None
    memory_format: MemoryFormat = "contiguous"


def run(arguments: Arguments) -> "CommandLine":
    """Parse a command and carry it out.

    Raises:
        UserError: Something in the command, a config or the data can be put right by the user.
    """
    with quiet(), tempfile.TemporaryDirectory() as scratch:
        start = Start(arguments)
        try:
            return CommandLine(start, start.parsed_arguments(Path(scratch)))
        except ArgumentError as error:
            raise explain(error, arguments) from None
        except Interrupted:
            run = start.writes_to
            if run and run.checkpoint("last").is_file():
                say(f"saved. Go on with: {python()} -m project fit --resume {run.shown()}")
            raise
        except (UserError, MisconfigurationException) as error:
            if start.made and not start.made.checkpoint("last").exists():
                runs.discard(start.made)  # a mistake is mended and tried again: leave no trace
            raise UserError(own_words(str(error))) from None


class CommandLine(LightningCLI):
    """Lightning's command line, for this project.

    Args:
        start: What the command starts from.
        args: Arguments to parse.
    """

    def __init__(self, start: Start, args: list[str]) -> None:
        self.start = start
        self.verb = start.arguments.verb
        self.began = time.monotonic()
        super().__init__(
            Task,
            DataModule,
            subclass_mode_model=True,
            subclass_mode_data=True,
            trainer_class=Trainer,
            trainer_defaults={
                "enable_model_summary": False,
                "enable_autolog_hparams": False,
                "use_distributed_sampler": False,  # the data module shares out its samples itself
            },
            seed_everything_default=0,
            save_config_callback=None,  # Record does that, and lets a second command pass
            auto_configure_optimizers=False,  # the task makes them: its hyperparameters have them
            args=args,
        )

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        ours = {"check": {"model", "datamodule", "folder"}, "tune": {"model", "datamodule"}}
        return {**LightningCLI.subcommands(), **ours}

    def init_parser(self, **kwargs: Any) -> LightningArgumentParser:
        return super().init_parser(**{"exit_on_error": False, **kwargs})

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        self.config = parser.parse_args(args)

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_lightning_class_args(Checkpoint, "checkpoint")
        parser.add_lightning_class_args(Freezing, "freezing")
        parser.add_lightning_class_args(NonFinite, "non_finite")  # before gradients are clipped
        parser.add_lightning_class_args(Clipping, "clipping")
        parser.add_lightning_class_args(Averaging, "ema")
        parser.add_lightning_class_args(DataWait, "data_wait")
        parser.add_lightning_class_args(Progress, "progress")
        parser.add_lightning_class_args(Predictions, "predictions")
        parser.add_class_arguments(RunSettings, "run")
        for name in MEANINGS:
            parser.link_arguments(
                "data",
                f"model.init_args.{name}",
                compute_fn=partial(self._meaning, name),
                apply_on="instantiate",
            )
        for name in SIZES:
            parser.link_arguments(
                "data",
                f"model.init_args.network.init_args.{name}",
                compute_fn=partial(self._size, name),
                apply_on="instantiate",
            )

    def _meaning(self, name: str, data: DataModule) -> Any:
        """What the task asks for by the name of its parameter."""
        task = self._get(self.config, "model").class_path
        if hasattr(data, name) or not _requires(task, name):
            return getattr(data, name, None)
        raise UserError(
            f"{task} asks for {name} ({MEANINGS[name]}), which {type(data).__name__} does not "
            f"have. {_other_targets(name, data)}Choose a task for what this data predicts "
            "(--model), or other data (--data)."
        )

    def _size(self, name: str, data: DataModule) -> int | None:
        """The number the network asks for by the name of its parameter."""
        network = self._get(self.config, "model").init_args.network.class_path
        if name in data.sizes or not _requires(network, name):
            return data.sizes.get(name)
        raise UserError(
            f"{network} asks for {name} ({SIZES[name]}), which {type(data).__name__} does not "
            f"have; it has {sorted(data.sizes)}. Choose another network (--model.network)."
        )

    def _parse_ckpt_path(self) -> None:
        """Nothing: `Start` has put the checkpoint's values where they belong."""

    def _dump_config(self) -> None:
        """Nothing: what the task's hyperparameters are taken from is there already."""

    def _set_seed(self) -> None:
        if self._get(self.config, "seed_everything") is True:
            self.config[self.verb]["seed_everything"] = int.from_bytes(os.urandom(4), "big")
        seed = self._get(self.config, "seed_everything")
        if type(seed) is int and not 0 <= seed < 2**32:
            raise UserError(f"seed_everything is {seed}; a seed is from 0 to {2**32 - 1}.")
        super()._set_seed()

    @property
    def plain_config(self) -> dict[str, Any]:
        """The whole config as plain values, without what only this verb takes."""
        config = _plain(self.config_dump)
        for key in {*self._subcommand_method_arguments[self.verb], "config"}:
            config.pop(key, None)
        task = config["model"]["init_args"]  # what the data supplies is not a setting
        for name in MEANINGS:
            task.pop(name, None)
        for name in SIZES:
            task["network"]["init_args"].pop(name, None)
        return config

    def before_instantiate_classes(self) -> None:
        settings: Namespace = self._get(self.config, "run")
        trainer: Namespace = self._get(self.config, "trainer")
        self.settings = settings
        if settings.num_threads is not None:
            torch.set_num_threads(settings.num_threads)
        self.start.refuse_finished(trainer.max_epochs, trainer.max_steps)
        if trainer.fast_dev_run or self.verb in ("check", "tune"):
            self.run = runs.Run(Path(tempfile.mkdtemp(prefix="fast_dev_run_")))
            return
        if (self.verb == "fit" and not self.start.resumes) or self.start.run is None:
            experiment = settings.experiment or self.start.experiment or "default"
            settings.experiment = experiment
            self.run = self._new_run(runs.rooted(settings.root), experiment, settings.name)
        else:
            self.run = self.start.run
        if runs.is_first_process() and (self.verb == "fit" or self.start.run is None):
            seed = self._get(self.config, "seed_everything")
            start = self.start
            runs.record_environment(self.run, start.arguments.typed, seed, start.files)

    def _new_run(self, root: Path, experiment: str, name: str | None) -> runs.Run:
        """Make the run's directory; the run's further processes find it in the environment."""
        made = runs.made_by_first_process()
        if made is None:
            made = self.start.made = runs.create(root, experiment, name)
            os.environ[runs.VARIABLE] = str(made.path)
        return made

    def instantiate_classes(self) -> None:
        self.config_dump = _plain(self.config[self.verb])
        if self.start.checkpoint or self.settings.init_from:
            self.config = _without_weights(self.config)
        try:
            super().instantiate_classes()
        except ValueError as error:
            raise _first_cause(error) from None  # the parser wraps what a constructor raises

    def _instantiate_trainer(self, config: dict[str, Any], callbacks: list[Any]) -> L.Trainer:
        if config["enable_progress_bar"] is False:  # Lightning refuses one without the other
            callbacks = [c for c in callbacks if not isinstance(c, Progress)]
        callbacks = [*callbacks, Interruption()]  # after the checkpoint is written
        try:
            return super()._instantiate_trainer(config, callbacks)
        except (TypeError, ValueError) as error:
            raise UserError(f"A --trainer setting can't be used here: {error}") from error

    def instantiate_trainer(self, **kwargs: Any) -> L.Trainer:
        trainer = self._get(self.config_init, "trainer")
        plugins = trainer.get("plugins") or []
        plugins = plugins if isinstance(plugins, list) else [plugins]
        kwargs["plugins"] = [*plugins, AtomicCheckpointIO()]
        kwargs |= self._hardware(trainer, plugins)
        kwargs["default_root_dir"] = str(self.run.path)
        if trainer.get("logger") in (None, True):
            kwargs["logger"] = TensorBoardLogger(
                self.run.path, name="", version="", default_hp_metric=False
            )
        record = Record(self.plain_config, "config.yaml" if self.verb == "fit" else None)
        callbacks = trainer.get("callbacks") or []
        callbacks = callbacks if isinstance(callbacks, list) else [callbacks]
        ours = [record, HalfPrecision(), History(), Hints(), Pictures(), Samples()]
        kwargs["callbacks"] = [*callbacks, *ours]
        if self.verb == "fit" and runs.TRIAL in os.environ:
            kwargs["callbacks"].append(Pruning())
        elif self.verb == "fit" and self.settings.preflight:
            kwargs["callbacks"].append(Preflight(CHECKS))
        return super().instantiate_trainer(**kwargs)

    def _hardware(self, trainer: Namespace, plugins: list[Any]) -> dict[str, Any]:
        """The trainer's settings that depend on the machine; what is given explicitly wins."""
        settings: dict[str, Any] = {}
        self.why_precision = ""
        if not any(isinstance(plugin, PrecisionPlugin) for plugin in plugins):
            settings["precision"], self.why_precision = hardware.precision(
                self.settings.precision, trainer.get("precision"), str(trainer.get("accelerator"))
            )
        hardware.set_matmul_precision(self.settings.mode)
        flags = hardware.flags(self.settings.mode)
        return settings | {k: v for k, v in flags.items() if trainer.get(k) is None}

    def before_fit(self) -> None:
        if self.settings.init_from and not self.start.resumes:
            if self.start.checkpoint:
                raise UserError(
                    f"run.init_from is {self.settings.init_from!r}, which starts a new training; "
                    "--ckpt_path goes on with an old one. Leave one of them out."
                )
            start_from(self.model, self.settings.init_from, self.settings.init_head)
        parameters = sum(p.numel() for p in self.model.parameters())
        say(
            f"{self.run.experiment}: {type(self.model).__name__}, "
            f"{type(self.model.network).__name__} with {parameters:,} parameters, "
            f"{type(self.datamodule).__name__}; "
            f"{self.trainer.accelerator.name()}, {self._precision()}, "
            f"seed {self._get(self.config, 'seed_everything')}"
        )
        say(f"run {self.run.shown()}")
        if self.start.resumes:
            before, now = runs.flat(self.start.config), runs.flat(self.plain_config)
            for key in sorted({*before, *now}):
                if before.get(key) != now.get(key) and not key.startswith("run."):
                    say(f"changed since the run began: {key} {before.get(key)} → {now.get(key)}")

        hardware.lay_out(self.model.network, self.settings.memory_format)
        if self.settings.compile:
            self.model.network.compile(backend=self.settings.compile)  # in place: no key changes

    def _used_hardware(self) -> dict[str, str]:
        accelerator = self.trainer.accelerator.name()
        return {"accelerator": accelerator, "precision": str(self.trainer.precision)}

    def _rate_to_go_on_with(self) -> str:
        """What to type so that added epochs do not go on at the nothing that the rate ended at."""
        ended_at = getattr(self.model.schedule, "final_fraction", 1.0)
        falls_by_itself = not isinstance(self.model.schedule, Plateau)
        return " --model.schedule.final_fraction 0.1" * (falls_by_itself and ended_at < 0.01)

    def _precision(self) -> str:
        return str(self.trainer.precision) + (f" ({w})" if (w := self.why_precision) else "")

    def after_fit(self) -> None:
        seconds = time.monotonic() - self.began
        checkpoint = self.trainer.checkpoint_callback
        results: dict[str, Any] = {}
        if self.trainer.fast_dev_run:
            say("fast_dev_run: one batch of each split went through; nothing was written")
            return
        best = checkpoint.best_model_path
        fitted = {
            "epochs": self.trainer.current_epoch,
            "steps": self.trainer.global_step,
            "seconds": round(seconds, 1),
            "best_epoch": checkpoint.best_epoch,
            f"best_{checkpoint.monitor}": checkpoint.best_value,
        }
        self._add_metrics("fit", fitted)
        self._add_metrics("hardware", self._used_hardware())
        if best and self.settings.test_after_fit:
            self.trainer.test(self.model, datamodule=self.datamodule, ckpt_path=best, verbose=False)
            results = self._results()
            self._add_metrics("test", results)
        if best and self.settings.export_after_fit:
            bundle.export(Path(best), self.run.path / "export", list(FORMATS))
        self._summarize(fitted, results)

    def check(self, **kwargs: Any) -> None:
        folder = runs.rooted(self.settings.root) / (self.start.experiment or "default")
        report = self.trainer.check(**kwargs, folder=str(folder))
        report.write(folder)
        print(report.text())
        print(f"in full: {folder}/check.csv, check.json; pictures and layers: {folder}/check")
        if report.has_failed:
            raise ChecksFailed

    def tune(self, **kwargs: Any) -> None:
        tried = self.trainer.tune(**kwargs)
        if isinstance(tried, Report):
            folder = runs.rooted(self.settings.root) / (self.start.experiment or "default")
            tried.draw(folder)
            print(f"{tried.text()}\nthe curve: {folder}/check/learning_rate.png")
            return
        print(tune.table(tried))
        print(f"best: {tune.fastest(tried).options()}")

    def validate(self, **kwargs: Any) -> None:
        self._evaluate("validate", **kwargs)

    def test(self, **kwargs: Any) -> None:
        self._evaluate("test", **kwargs)

    def predict(self, **kwargs: Any) -> None:
        kwargs["return_predictions"] = False  # they go to the file, batch by batch
        self.trainer.predict(**kwargs)
        written = next(c for c in self.trainer.callbacks if isinstance(c, Predictions)).written
        say(f"checkpoint   {self.start.checkpoint}")
        say(f"predictions  {written}")

    def _evaluate(self, verb: str, **kwargs: Any) -> None:
        getattr(self.trainer, verb)(**{**kwargs, "verbose": False})
        results = self._results()
        self._add_metrics(verb, {"checkpoint": str(self.start.checkpoint), **results})
        say(f"checkpoint  {self.start.checkpoint}")
        say(f"{verb:10}  {listed(results)}")

    def _add_metrics(self, verb: str, values: dict[str, Any]) -> None:
        if runs.is_first_process():
            self.run.add_metrics(verb, values)

    def _results(self) -> dict[str, float]:
        return {name: float(value) for name, value in self.trainer.callback_metrics.items()}

    def _summarize(self, fitted: dict[str, Any], results: dict[str, float]) -> None:
        path, this_python = self.run.shown(), python()
        say("")
        best = "none, the monitored metric was never measured or never finite"
        if fitted["best_epoch"] is not None:
            best = f"epoch {fitted['best_epoch'] + 1}"
        say(f"trained {fitted['epochs']} epochs in {fitted['seconds']:.0f} s; best: {best}")
        if results:
            say(f"test (best checkpoint)  {listed(results)}")
        say(f"run   {path}")
        say("next")
        for what, command in {
            "test again": f"{this_python} -m project test --ckpt_path {path}",
            "look": f"{this_python} -m tensorboard.main --logdir {path}",
            "export": f"{this_python} -m project export --ckpt_path {path}",
            "train on": f"{this_python} -m project fit --resume {path} "
            f"--trainer.max_epochs {2 * max(1, fitted['epochs'])}{self._rate_to_go_on_with()}",
        }.items():
            say(f"  {what:10}  {command}")


def _without_weights(config: Namespace) -> Namespace:
    """The config of a network that other values go into, as `checkpoints.without_weights` says."""
    config = config.clone()
    for key in list(config.keys()):
        if ".network." in key and key.endswith(".init_args.weights"):
            config[key] = None
    return config


def _other_targets(name: str, data: DataModule) -> str:
    """How to have this data predict what the task asks for, if its targets can be taken so."""
    kind = {"class_names": "classes", "target_names": "numbers"}.get(name)
    if kind is None or "target_kind" not in inspect.signature(type(data)).parameters:
        return ""
    return f"If the targets are {kind}: --data.target_kind {kind}. "


def _requires(class_path: str, name: str) -> bool:
    """Whether a class can't be made without an argument of that name."""
    module, _, class_name = class_path.rpartition(".")
    parameters = inspect.signature(getattr(importlib.import_module(module), class_name)).parameters
    return name in parameters and parameters[name].default is inspect.Parameter.empty


def _first_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _plain(value: Any) -> Any:
    """A parsed config as what YAML and JSON have: dictionaries, lists, numbers, text."""
    if isinstance(value, Namespace | dict):
        items = vars(value).items() if isinstance(value, Namespace) else value.items()
        return {str(key): _plain(inner) for key, inner in items}
    if isinstance(value, list | tuple | set):
        return [_plain(inner) for inner in value]
    if isinstance(value, Enum):
        return value.value if isinstance(value, str) else value.name
    if value is None or type(value) in (bool, int, float, str):
        return value
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return str(value)
