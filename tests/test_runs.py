"""The directories of runs: made once, found by every name, whole after every write."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from project import runs
from project.errors import UserError
from project.runs import Run, create, find, flat, of_checkpoint, record_environment, runs_in


def started(root: Path, name: str, second: int) -> Run:
    """A run with no more than its start."""
    path = root / name
    path.mkdir(parents=True)
    record = {"started": f"2026-01-02T03:04:{second:02}+00:00"}
    (path / "environment.json").write_text(json.dumps(record))
    return Run(path)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository of one commit, in the place of this one."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)  # a hook that runs the tests sets some
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "model.py").write_bytes(b"# caf\xe9\nwidth = 1\n")  # not UTF-8
    author = ["-c", "user.name=A", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    monkeypatch.setattr(runs, "project_root", lambda: folder)
    return folder


@pytest.mark.parametrize("name", [None, "mine"])
def test_threads_never_share_a_directory(tmp_path: Path, name: str | None) -> None:
    def make(_: int) -> Path | str:
        try:
            return create(tmp_path, "digits", name).path
        except UserError as error:
            return str(error)

    with ThreadPoolExecutor(20) as pool:
        made = list(pool.map(make, range(20)))
    paths = {path for path in made if isinstance(path, Path)}
    assert len(paths) == (20 if name is None else 1)
    if name is not None:
        refused = [error for error in made if isinstance(error, str)]
        assert len(refused) == 19
        assert f"There is a run {tmp_path / 'digits' / 'mine'} already" in refused[0]
        assert "--resume mine" in refused[0]
    left = {path for path in (tmp_path / "digits").iterdir() if path.name != "latest"}
    assert left == paths  # no temporary links
    assert (tmp_path / "digits" / "latest").resolve() in paths


def test_latest_moves(tmp_path: Path) -> None:
    for name in ("a", "b"):
        create(tmp_path, "digits", name)
        assert (tmp_path / "digits" / "latest").resolve() == tmp_path / "digits" / name


@pytest.mark.parametrize("name", ["latest", ".hidden", "..", "a/b", "a\\b"])
@pytest.mark.parametrize("option", ["experiment", "name"])
def test_names_that_are_none_for_a_directory(tmp_path: Path, option: str, name: str) -> None:
    names = {"experiment": "digits", "name": "a", option: name}
    with pytest.raises(UserError) as caught:
        create(tmp_path, **names)
    assert str(caught.value).startswith(f"--run.{option} is {name!r}")
    assert list(tmp_path.iterdir()) == []


def test_runs_are_ordered_by_their_start_and_counted_once(tmp_path: Path) -> None:
    started(tmp_path, "digits/a", 2)
    started(tmp_path, "iris/b", 1)
    started(tmp_path, "digits/c", 0)
    (tmp_path / "digits" / "latest").symlink_to("a")
    (tmp_path / "digits" / "notes").mkdir()
    assert [run.name for run in runs_in(tmp_path)] == ["digits/c", "iris/b", "digits/a"]
    assert [run.name for run in runs_in(tmp_path, "digits")] == ["digits/c", "digits/a"]
    assert runs_in(tmp_path / "nowhere") == []
    assert runs_in(tmp_path, "[d]igits") == []


def test_a_broken_record_is_listed_by_its_time(tmp_path: Path) -> None:
    started(tmp_path, "digits/a", 2)
    broken = started(tmp_path, "digits/b", 1).path / "environment.json"
    broken.write_text('{"started": "2026')
    os.utime(broken, (0, 0))  # 1970
    assert [run.name for run in runs_in(tmp_path)] == ["digits/b", "digits/a"]
    with pytest.raises(UserError, match=r"environment\.json is broken \(Unterminated string"):
        _ = Run(broken.parent).environment


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("latest", "iris/c-3"),
        ("digits/latest", "digits/b-2"),
        ("digits/a-1", "digits/a-1"),
        ("b-2", "digits/b-2"),
        ("b", "digits/b-2"),
        ("iris/c", "iris/c-3"),
        ("digits/a", "digits/a-1"),
        ("a-1", "digits/a-1"),  # whole, though a-10 begins so too
    ],
)
def test_find_by_name(tmp_path: Path, name: str, found: str) -> None:
    for second, each in enumerate(("digits/a-1", "digits/b-2", "iris/a-10", "iris/c-3")):
        started(tmp_path, each, second)
    assert find(tmp_path, name).name == found


def test_find_within_an_experiment(tmp_path: Path) -> None:
    for second, each in enumerate(("digits/a", "iris/a")):
        started(tmp_path, each, second)
    assert find(tmp_path, "a", "digits").name == "digits/a"
    assert find(tmp_path, "latest", "digits").name == "digits/a"
    assert find(tmp_path, "digits/latest", "digits").name == "digits/a"
    with pytest.raises(UserError, match=r"'a' fits 2 runs: digits/a, iris/a\. Say which"):
        find(tmp_path, "a")
    started(tmp_path, "iris/b", 2)
    with pytest.raises(UserError, match=r"'iris/' fits 2 runs: iris/a, iris/b\. Say which"):
        find(tmp_path, "iris/")


def test_find_by_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = started(tmp_path, "runs/digits/a", 0)
    (tmp_path / "runs" / "digits" / "latest").symlink_to("a")
    elsewhere = tmp_path / "nowhere"
    assert find(elsewhere, str(run.path)).path == run.path.resolve()
    assert find(elsewhere, str(run.path.parent / "latest")).path == run.path.resolve()
    monkeypatch.chdir(tmp_path)
    assert find(elsewhere, "runs/digits/a").path == run.path.resolve()
    assert run.shown() == str(Path("runs", "digits", "a"))
    monkeypatch.chdir("/")
    monkeypatch.setattr(runs, "project_root", lambda: tmp_path)
    assert find(elsewhere, "runs/digits/a").path == run.path.resolve()


def test_find_explains(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        find(tmp_path, "latest")
    assert str(caught.value) == (
        f"There are no runs yet in {tmp_path}. Start one with "
        "python -m project fit --config configs/digits.yaml."
    )
    started(tmp_path, "digits/mine", 0)
    with pytest.raises(UserError) as caught:
        find(tmp_path, "digits/mien")
    assert str(caught.value) == (
        f"There is no run 'digits/mien' in {tmp_path}. Did you mean 'digits/mine'? "
        "Allowed: digits/mine."
    )
    with pytest.raises(UserError, match="There is no run 'iris/latest'"):
        find(tmp_path, "iris/latest")
    for second in range(1, 26):
        started(tmp_path, f"digits/b{second}", second)
    with pytest.raises(UserError, match=r"'b' fits 25 runs: digits/b6, .*digits/b25, …\. Say"):
        find(tmp_path, "b")


def test_of_checkpoint(tmp_path: Path) -> None:
    run = started(tmp_path, "digits/a", 0)
    found = of_checkpoint(run.checkpoint("best"))
    assert found is not None
    assert found.path == run.path.resolve()
    assert of_checkpoint(tmp_path / "digits" / "a.ckpt") is None


def test_a_clean_checkout_is_recorded(tmp_path: Path, repository: Path) -> None:
    run = create(tmp_path, "digits", "a")
    record_environment(run, ["fit", "--config", "a b.yaml"], seed=3)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True)
    record = run.environment
    assert record["git"] == {"commit": head.stdout.decode().strip(), "dirty": False}
    assert record["command"] == "python -m project fit --config 'a b.yaml'"
    assert record["seed"] == 3
    assert set(record["packages"]) == set(runs.PACKAGES)
    assert sorted(path.name for path in run.path.iterdir()) == ["environment.json"]


def test_a_changed_checkout_is_recorded_with_the_change(tmp_path: Path, repository: Path) -> None:
    (repository / "model.py").write_bytes(b"# caf\xe9\nwidth = 2\n")
    run = create(tmp_path, "digits", "a")
    record_environment(run, ["fit"], seed=None)
    assert run.environment["git"]["dirty"] is True
    subprocess.run(["git", "checkout", "-q", "."], cwd=repository, check=True)
    subprocess.run(["git", "apply", str(run.path / "git.diff")], cwd=repository, check=True)
    assert (repository / "model.py").read_bytes() == b"# caf\xe9\nwidth = 2\n"


def test_an_untracked_file_makes_the_checkout_dirty(tmp_path: Path, repository: Path) -> None:
    (repository / "new.py").write_text("")
    run = create(tmp_path, "digits", "a")
    record_environment(run, ["fit"], seed=None)
    assert run.environment["git"]["dirty"] is True
    assert not (run.path / "git.diff").exists()


@pytest.mark.parametrize("missing", ["repository", "commit", "program"])
def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.setattr(runs, "project_root", lambda: tmp_path / "project")
    (tmp_path / "project").mkdir()
    if missing == "commit":
        subprocess.run(["git", "init", "-q"], cwd=tmp_path / "project", check=True)
    if missing == "program":
        monkeypatch.setenv("PATH", "")
    run = create(tmp_path, "digits", "a")
    record_environment(run, ["fit"], seed=0)
    assert run.environment["git"] is None


def test_a_dropped_package_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PACKAGES", ("numpy", "no-such-package"))
    run = create(tmp_path, "digits", "a")
    record_environment(run, ["fit"], seed=0)
    assert list(run.environment["packages"]) == ["numpy"]


def test_a_resumed_run_keeps_its_first_record(tmp_path: Path, repository: Path) -> None:
    run = create(tmp_path, "digits", "a")
    record_environment(run, ["fit"], seed=1)
    first = run.environment
    (repository / "model.py").write_text("width = 2\n")
    for seed in (2, 3):
        record_environment(run, ["fit", "--resume"], seed=seed)
    record = run.environment
    resumed = record.pop("resumed")
    assert record == first
    assert [start["seed"] for start in resumed] == [2, 3]
    assert [start["git"]["dirty"] for start in resumed] == [True, True]
    assert first["started"] <= resumed[0]["started"] <= resumed[1]["started"]


def test_results_of_verbs_stand_side_by_side(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.metrics == {}
    run.add_metrics("fit", {"epochs": 1})
    run.add_metrics("test", {"test_loss": 2.0})
    run.add_metrics("fit", {"epochs": 3})
    assert run.metrics == {"fit": {"epochs": 3}, "test": {"test_loss": 2.0}}
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.json"]


def test_history_has_numbers_and_no_half_row(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.history == []
    (tmp_path / "metrics.csv").write_text("epoch,val_loss,lr\n0,,1e-3\n1,nan,-2\n2,0.")
    first, second = run.history
    assert first == {"epoch": 0, "val_loss": None, "lr": 0.001}
    assert second["val_loss"] != second["val_loss"]
    assert second["lr"] == -2
    (tmp_path / "metrics.csv").write_text("epoch,val_loss\n0,1,2\n")
    with pytest.raises(UserError, match=r"metrics\.csv is broken"):
        _ = run.history


@pytest.mark.parametrize(
    ("file", "text", "what"),
    [
        ("config.yaml", "a: [1", "while parsing a flow sequence"),
        ("config.yaml", "", "it holds None"),
        ("metrics.json", "[1]", r"it holds \[1\]"),
        ("metrics.json", '{"fit": ', "Expecting value"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, file: str, text: str, what: str) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(UserError, match=rf"{file} is broken \({what}") as caught:
        getattr(Run(tmp_path), file.partition(".")[0])
    assert str(tmp_path / file) in str(caught.value)


def test_flat() -> None:
    config = {
        "seed": 0,
        "model": {"class_path": "M", "init_args": {"network": {"init_args": {"width": 8}}}},
        "data": {"class_path": "D", "init_args": {}},
        "empty": {},
        "list": [{"a": 1}],
        "none": None,
    }
    assert flat(config) == {
        "seed": 0,
        "model.class_path": "M",
        "model.network.width": 8,
        "data.class_path": "D",
        "empty": {},
        "list": [{"a": 1}],
        "none": None,
    }
    assert flat({}) == {}
