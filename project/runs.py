"""The directories that runs leave behind: making, finding, and what stands in them.

One run is one directory, `runs/<experiment>/<run>/`; `runs/<experiment>/latest` leads to the
newest. Nothing here imports torch, so that listing runs answers at once.
"""

import contextlib
import csv
import importlib.metadata
import json
import os
import platform
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from project.errors import UserError, suggestion

PACKAGES = (
    "torch", "torchvision", "lightning", "torchmetrics", "jsonargparse", "numpy", "scikit-learn",
)  # fmt: skip
YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C where built: 8 times as fast
VARIABLE = "PROJECT_RUN"
"""Environment variable that leads the further processes of a run to its directory."""
TRIAL = "PROJECT_TRIAL"
"""Environment variable that tells a run which trial of which search it is: JSON with Optuna's
`journal` file, the `study`, the `trial`, and the `pruning` of the search space, or null."""


def is_first_process() -> bool:
    """Whether this process is its run's only one, or the one of several that speaks and writes."""
    return int(os.environ.get("LOCAL_RANK", "0")) == 0


@dataclass(frozen=True)
class Run:
    """One run's directory.

    What it holds is empty before it is written; a broken file is a `UserError` that names it.
    """

    path: Path

    @property
    def name(self) -> str:
        """Experiment and run, as it is named on the command line."""
        return f"{self.experiment}/{self.path.name}"

    @property
    def experiment(self) -> str:
        """The directory above: what the run was one try of."""
        return self.path.parent.name

    @property
    def config(self) -> dict[str, Any]:
        """The full configuration."""
        return _read(self.path / "config.yaml", lambda text: yaml.load(text, YAML_LOADER))

    @property
    def metrics(self) -> dict[str, Any]:
        """What `metrics.json` holds: numbers by verb."""
        return _read(self.path / "metrics.json", json.loads)

    @property
    def history(self) -> list[dict[str, Any]]:
        """Rows of `metrics.csv`, one per epoch; a last line cut off while written is left out."""
        return _read(self.path / "metrics.csv", _table, kind=list)

    @property
    def environment(self) -> dict[str, Any]:
        """Seed, packages, git state, command, start."""
        return _read(self.path / "environment.json", json.loads)

    def checkpoint(self, which: str) -> Path:
        """Path of the `best` or the `last` checkpoint, there or not."""
        return self.path / "checkpoints" / f"{which}.ckpt"

    def add_metrics(self, verb: str, values: dict[str, Any]) -> None:
        """Put the results of a verb into `metrics.json`, in place of earlier ones."""
        _write_json(self.path / "metrics.json", {**self.metrics, verb: values})

    def shown(self) -> str:
        """The path as a user would type it here."""
        try:
            return str(self.path.relative_to(Path.cwd()))
        except ValueError:
            return str(self.path)


def project_root() -> Path:
    """Where relative paths start: the checkout this package lies in, else the working directory."""
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
        UserError: A run of that name exists, or a name is none for a directory.
    """
    for option, word in {"experiment": experiment, "name": name or "-"}.items():
        if word == "latest" or word.startswith(".") or set(word) & {"/", "\\"}:
            raise UserError(
                f"--run.{option} is {word!r}, but must name one directory: without slashes, not "
                "beginning with a dot, and not latest, which leads to the newest run. Where all "
                "runs lie is --run.root."
            )
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


def made_by_first_process() -> Run | None:
    """In a further process of a run: the new run that the first one made, if it made one."""
    if is_first_process() or VARIABLE not in os.environ:
        return None
    return Run(Path(os.environ[VARIABLE]))


def discard(run: Run) -> None:
    """Remove a run that came to nothing; `latest` leads to the one before again."""
    shutil.rmtree(run.path)
    earlier = runs_in(run.path.parent.parent, run.experiment)
    if earlier:
        _point_latest_to(earlier[-1].path)
    else:
        (run.path.parent / "latest").unlink(missing_ok=True)


def _point_latest_to(path: Path) -> None:
    latest = path.parent / "latest"
    temporary = path.parent / f".latest.{secrets.token_hex(8)}"
    try:
        temporary.symlink_to(path.name, target_is_directory=True)
    except OSError:  # Windows without the right to make links
        temporary.write_text(path.name, encoding="utf-8")
    temporary.replace(latest)


def runs_in(root: Path, experiment: str | None = None) -> list[Run]:
    """All runs below a directory, the oldest first."""
    folders = [root / experiment] if experiment else root.glob("*")
    found = [file.parent for folder in folders for file in folder.glob("*/environment.json")]
    runs = [Run(path) for path in found if path.name != "latest" and path.name[0] != "."]
    return sorted(runs, key=lambda run: (_started(run), run.path))


def _started(run: Run) -> str:
    """When a run began, in ISO format; where its record is broken, when that was written."""
    try:
        return str(run.environment["started"])
    except (UserError, KeyError):
        written = (run.path / "environment.json").stat().st_mtime
        return datetime.fromtimestamp(written, UTC).isoformat()


def find(root: Path, name: str, experiment: str | None = None) -> Run:
    """The run a user means.

    Args:
        root: Where all runs lie.
        name: `latest`, `experiment/latest`, a run's directory, its name, `experiment/name`, or the
            beginning of a name that only one run has.
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
        raise none_yet(root / (experiment or ""))
    matching = [run for run in runs if name in (run.path.name, run.name)]
    where, _, last = name.rpartition("/")
    if last == "latest":
        matching = [run for run in runs if where in ("", run.experiment)][-1:]
    elif not matching:
        matching = [
            run for run in runs if run.path.name.startswith(name) or run.name.startswith(name)
        ]
    if len(matching) == 1:
        return matching[0]
    newest = [run.name for run in (matching or runs)[-20:]]
    if matching:
        raise UserError(
            f"The name {name!r} fits {len(matching)} runs: {', '.join(newest)}"
            f"{', …' if len(matching) > len(newest) else ''}. Say which."
        )
    raise UserError(f"There is no run {name!r} in {root}." + suggestion(name, newest))


def none_yet(folder: Path) -> UserError:
    """The error of a place without runs, which says how to start one."""
    return UserError(
        f"There are no runs yet in {folder}. Start one with "
        "python -m project fit --config configs/digits.yaml."
    )


def of_checkpoint(path: Path) -> Run | None:
    """The run a checkpoint belongs to; None for a file that lies elsewhere."""
    run = Run(path.resolve().parent.parent)
    return run if (run.path / "environment.json").is_file() else None


def record_environment(
    run: Run, command: list[str], seed: int | None, config_files: dict[str, Any] | None = None
) -> None:
    """Write what a run's result depends on besides its config: `environment.json`, `git.diff`.

    Args:
        run: The run; a resumed one keeps its first record and adds the new start.
        command: Arguments as typed.
        seed: The run's seed.
        config_files: What the config files say, merged; a resume sees by it what changed in them.
    """
    git, changes = _git_state()
    now = datetime.now(UTC).isoformat(timespec="milliseconds")  # orders runs of the same second
    record = {
        "command": shlex.join(["python", "-m", "project", *command]),
        "started": now,
        "seed": seed,
        "git": git,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": versions(),
        "config_files": config_files or {},
    }
    earlier = run.environment
    if earlier:
        resumes = [*earlier.get("resumed", []), record]
        record = {**earlier, "resumed": resumes}
    elif changes:
        (run.path / "git.diff").write_bytes(changes)
    _write_json(run.path / "environment.json", record)


def versions() -> dict[str, str]:
    """Versions of the packages that shape a result; a project may have dropped some."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _git_state() -> tuple[dict[str, Any] | None, bytes]:
    """Commit and whether the checkout differs from it; the difference in tracked files.

    An untracked file makes the checkout dirty as well: it may be a module that the run imported.
    """

    def git(*arguments: str) -> bytes:  # bytes, for a diff may quote files of any encoding
        command = ["git", "-C", str(project_root()), *arguments]
        return subprocess.run(command, capture_output=True, check=True).stdout

    try:
        commit = git("rev-parse", "HEAD").decode().strip()
        status = git("status", "--porcelain")
        changes = git("diff", "--no-color", "--no-ext-diff", "HEAD")
    except (OSError, subprocess.CalledProcessError):  # no git, no repository, or no commit yet
        return None, b""
    return {"commit": commit, "dirty": bool(status.strip())}, changes


def _read(path: Path, parse: Callable[[str], Any], kind: type = dict) -> Any:
    """What a file holds; empty when there is no such file.

    Raises:
        UserError: It cannot be read, or holds something else: cut off, or edited by hand.
    """
    try:
        content = parse(path.read_text("utf-8"))
    except FileNotFoundError:
        return kind()
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path} is broken ({reason}). Mend it, or delete it.") from None
    if not isinstance(content, kind):
        raise UserError(f"{path} is broken (it holds {content!r:.40}). Mend it, or delete it.")
    return content


def _write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)


def _table(text: str) -> list[dict[str, Any]]:
    whole = [line for line in text.splitlines(keepends=True) if line[-1] == "\n"]
    header, *lines = list(csv.reader(whole)) or [[]]
    return [dict(zip(header, map(_number, line), strict=True)) for line in lines]


def _number(text: str) -> float | int | None:
    if not text:
        return None
    return int(text) if text.lstrip("-").isdigit() else float(text)


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two nested configs as one; where both have a value, the second's, a class as a whole."""
    if second.get("class_path", first.get("class_path")) != first.get("class_path"):
        return second
    result = dict(first)
    for key, value in second.items():
        both = isinstance(value, dict) and isinstance(first.get(key), dict)
        result[key] = merged(first[key], value) if both else value
    return result


def changes(before: Any, now: dict[str, Any]) -> dict[str, Any]:
    """The part of a nested config that another one does not say, or says differently.

    A class that was replaced comes with all of its arguments.
    """
    if not isinstance(before, dict) or before.get("class_path") != now.get("class_path"):
        return now
    result = {}
    for key, value in now.items():
        if isinstance(value, dict) and value:
            if inner := changes(before.get(key), value):
                result[key] = inner
        elif key not in before or before[key] != value:
            result[key] = value
    return result


def flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """A nested config as dotted keys, with `init_args` left out as it is on the command line."""
    if not isinstance(tree, dict) or not tree:
        return {prefix: tree} if prefix else {}
    result: dict[str, Any] = {}
    for key, value in tree.items():
        if key == "init_args" and not value:
            continue
        inner = prefix if key == "init_args" else f"{prefix}.{key}" if prefix else key
        result |= flat(value, inner)
    return result
