"""The directories that runs leave behind: making, finding, and what stands in them.

One run is one directory, `runs/<experiment>/<run>/`; `runs/<experiment>/latest` leads to the newest.
Nothing here imports torch, so that listing runs answers at once.
"""

import importlib.metadata
import json
import os
import platform
import secrets
import shlex
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from project.errors import UserError, suggestion

PACKAGES = (
    "torch", "torchvision", "lightning", "torchmetrics", "jsonargparse", "numpy", "scikit-learn",
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One run's directory."""

    path: Path

    @property
    def experiment(self) -> str:
        """The directory above: what the run was one try of."""
        return self.path.parent.name

    @property
    def config(self) -> dict[str, Any]:
        """The full configuration; empty for a directory without one."""
        file = self.path / "config.yaml"
        return yaml.safe_load(file.read_text("utf-8")) if file.is_file() else {}

    @property
    def metrics(self) -> dict[str, Any]:
        """What `metrics.json` holds: numbers by verb; empty before the first result."""
        return _read_json(self.path / "metrics.json")

    @property
    def environment(self) -> dict[str, Any]:
        """Seed, packages, git state, command, start."""
        return _read_json(self.path / "environment.json")

    def checkpoint(self, which: str) -> Path:
        """Path of the `best` or the `last` checkpoint, there or not."""
        return self.path / "checkpoints" / f"{which}.ckpt"

    def add_metrics(self, verb: str, values: dict[str, Any]) -> None:
        """Put the results of a verb into `metrics.json`, in place of earlier ones."""
        text = json.dumps({**self.metrics, verb: values}, indent=2)
        temporary = self.path / f".metrics.json.{os.getpid()}"
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(self.path / "metrics.json")

    def shown(self) -> str:
        """The path as a user would type it here."""
        try:
            return str(self.path.relative_to(Path.cwd()))
        except ValueError:
            return str(self.path)


def project_root() -> Path:
    """The checkout this package lies in, else the working directory: what relative paths start at."""
    folder = Path(__file__).resolve().parent.parent
    return folder if (folder / "pyproject.toml").is_file() else Path.cwd()


def rooted(path: str | Path) -> Path:
    """An absolute path; a relative one starts at the project's root, wherever the command runs."""
    path = Path(path).expanduser()
    return path if path.is_absolute() else project_root() / path


def create(root: Path, experiment: str, name: str | None) -> Run:
    """Make a new run's directory and let `latest` lead to it.

    Args:
        root: Where all runs lie.
        experiment: The directory in between.
        name: The run's own name; None takes the time (UTC) and four random letters.

    Raises:
        UserError: A run of that name exists.
    """
    folder = root / experiment
    folder.mkdir(parents=True, exist_ok=True)
    name = name or f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    path = folder / name
    try:
        path.mkdir()  # atomic: two runs started at once never share one
    except FileExistsError:
        raise UserError(
            f"There is a run {path} already. Choose another --run.name, or continue that one with "
            f"--resume {name}."
        ) from None
    _point_latest_to(path)
    return Run(path)


def _point_latest_to(path: Path) -> None:
    latest = path.parent / "latest"
    temporary = path.parent / f".latest.{os.getpid()}"
    try:
        temporary.symlink_to(path.name, target_is_directory=True)
    except OSError:  # Windows without the right to make links
        temporary.write_text(path.name, encoding="utf-8")
    temporary.replace(latest)


def runs_in(root: Path, experiment: str | None = None) -> list[Run]:
    """All runs below a directory, the oldest first."""
    pattern = f"{experiment or '*'}/*/environment.json"
    found = [file.parent for file in root.glob(pattern) if not file.parent.is_symlink()]
    started = {path: _read_json(path / "environment.json").get("started", "") for path in found}
    return [Run(path) for path in sorted(found, key=lambda path: (started[path], path))]


def find(root: Path, name: str, experiment: str | None = None) -> Run:
    """The run a user means.

    Args:
        root: Where all runs lie.
        name: `latest`, a run's directory, its name, or `experiment/name`.
        experiment: Only look among the runs of this experiment.

    Raises:
        UserError: There is none, or the name fits several.
    """
    given = Path(name).expanduser()
    for path in (given, rooted(name)):
        if (path / "environment.json").is_file():
            return Run(path.resolve())
    runs = runs_in(root, experiment)
    if not runs:
        raise UserError(f"There are no runs yet in {root / (experiment or '')}. Start one with fit.")
    if name == "latest":
        return runs[-1]
    matching = [
        run for run in runs if name in (run.path.name, f"{run.experiment}/{run.path.name}")
    ]
    if "/" in name and name.endswith("/latest"):
        return find(root, "latest", name.removesuffix("/latest"))
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UserError(
            f"The name {name!r} fits several runs: "
            f"{', '.join(f'{run.experiment}/{run.path.name}' for run in matching)}. Say which."
        )
    raise UserError(
        f"There is no run {name!r} in {root}."
        + suggestion(name, [f"{run.experiment}/{run.path.name}" for run in runs[-20:]])
    )


def of_checkpoint(path: Path) -> Run | None:
    """The run a checkpoint belongs to; None for a file that lies elsewhere."""
    run = Run(path.resolve().parent.parent)
    return run if (run.path / "environment.json").is_file() else None


def record_environment(run: Run, command: list[str], seed: int | None) -> None:
    """Write what a run's result depends on besides its config: `environment.json`, `git.diff`.

    Args:
        run: The run; a resumed one keeps its first record and adds the new start.
        command: Arguments as typed.
        seed: The run's seed.
    """
    git, changes = _git_state()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record = {
        "command": shlex.join(["python", "-m", "project", *command]),
        "started": now,
        "seed": seed,
        "git": git,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
    }
    earlier = run.environment
    if earlier:
        resumes = [*earlier.get("resumed", []), record]
        record = {**earlier, "resumed": resumes}
    elif changes:
        (run.path / "git.diff").write_text(changes, encoding="utf-8")
    (run.path / "environment.json").write_text(json.dumps(record, indent=2) + "\n", "utf-8")


def _git_state() -> tuple[dict[str, Any] | None, str]:
    """Commit and whether tracked files differ from it, and the difference; None outside git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(project_root()), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    try:
        commit = git("rev-parse", "HEAD").strip()
        status, changes = git("status", "--porcelain"), git("diff", "HEAD")
    except (OSError, subprocess.CalledProcessError):  # no git, no repository, or no commit yet
        return None, ""
    return {"commit": commit, "dirty": bool(status.strip())}, changes


def _read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """A nested config as dotted keys, with `init_args` left out as it is on the command line."""
    if not isinstance(tree, dict) or not tree:
        return {prefix: tree}
    result: dict[str, Any] = {}
    for key, value in tree.items():
        inner = prefix if key == "init_args" else f"{prefix}.{key}" if prefix else key
        result |= flat(value, inner)
    return result


