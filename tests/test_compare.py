"""`python -m project runs`: what is listed, shown and compared, whatever state a run is in."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from project import compare
from project.cli import main
from project.compare.command import OPTIONS
from project.compare.listing import WIDTH
from project.errors import UserError
from tests.conftest import ROOT

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def fake(
    root: Path,
    name: str,
    minute: int,
    *,
    accuracies: tuple[float, ...] = (0.5, 0.75),
    max_epochs: int = 2,
    width: int = 32,
    monitor: str = "val_accuracy",
    verb: str = "fit",
    environment: dict[str, Any] | None = None,
) -> Path:
    """A run's directory as training leaves it: finished, if its epochs are done."""
    path = root / name
    (path / "checkpoints").mkdir(parents=True)
    (path / "checkpoints" / "last.ckpt").touch()
    network = {"class_path": "project.models.ResNet", "init_args": {"width": width}}
    config = {
        "seed_everything": minute,
        "trainer": {"max_epochs": max_epochs},
        "model": {"class_path": "project.tasks.Classification", "init_args": {"network": network}},
        "checkpoint": {"monitor": monitor, "mode": "auto"},
        "run": {"name": name},
    }
    (path / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    record = {
        "command": f"python -m project {verb}",
        "started": f"2026-01-02T03:{minute:02}:00.000+00:00",
        "seed": minute,
        "git": {"commit": COMMIT, "dirty": False},
        "python": "3.11.7",
        "packages": {"torch": "2.9.0"},
    }
    (path / "environment.json").write_text(json.dumps({**record, **(environment or {})}))
    rows = [f"{epoch},{10 + epoch},{1 - value},{value},0.001" for epoch, value in
            enumerate(accuracies)]  # fmt: skip
    header = "epoch,step,val_loss,val_accuracy,lr"
    (path / "metrics.csv").write_text("\n".join([header, *rows]) + "\n")
    if len(accuracies) >= max_epochs:
        best = max(accuracies)
        fit = {"epochs": len(accuracies), "seconds": 12.5, "best_epoch": accuracies.index(best)}
        fit[f"best_{monitor}"] = best if monitor == "val_accuracy" else 1 - best
        test = {"test_loss": 1 - best, "test_accuracy": best / 2}
        (path / "metrics.json").write_text(json.dumps({"fit": fit, "test": test}))
    return path


def report(root: Path, *args: str) -> list[str]:
    return compare.report([*args, "--root", str(root)]).splitlines()


def test_the_list(tmp_path: Path) -> None:
    fake(tmp_path, "digits/b", 7, width=8, accuracies=(0.75, 0.5))
    dirty = {"git": {"commit": COMMIT, "dirty": True}}
    fake(tmp_path, "digits/a", 9, accuracies=(0.25,), environment=dirty)
    assert report(tmp_path) == [
        "digits: best val_accuracy @epoch, test_accuracy",
        "run       started UTC  state           s     best     test   commit    seed",
        "digits/b  01-02 03:07  finished 2/2    12.5  0.75 @1  0.375  0123456   7   "
        "  model.network.width=8",
        "digits/a  01-02 03:09  unfinished 1/2        0.25 @1         0123456*  9   "
        "  model.network.width=32",
    ]


def test_equal_runs_have_no_settings_that_differ(tmp_path: Path) -> None:
    for minute, name in enumerate(("digits/a", "digits/b")):
        fake(tmp_path, name, minute)
    assert [line.split()[-1] for line in report(tmp_path)[2:]] == ["0", "1"]


def test_experiments_stand_apart_and_the_newest_run_comes_last(tmp_path: Path) -> None:
    fake(tmp_path, "iris/a", 5, width=4, monitor="val_loss")
    fake(tmp_path, "digits/old", 1)
    fake(tmp_path, "digits/new", 9)
    lines = report(tmp_path)
    heads = [line.split()[0] for line in lines if line]
    assert heads == ["iris:", "run", "iris/a", "digits:", "run", "digits/old", "digits/new"]
    assert lines[0] == "iris: best val_loss @epoch, test_loss"
    assert "0.25 @2" in lines[2]
    assert [line.split()[0] for line in report(tmp_path, "--experiment", "iris")] == heads[:3]
    assert not [line for line in lines if "width" in line]  # it differs between experiments only


def test_different_metrics_are_named_in_the_line(tmp_path: Path) -> None:
    fake(tmp_path, "digits/a", 1)
    fake(tmp_path, "digits/b", 2, monitor="val_loss")
    title, _, a, b = report(tmp_path)
    assert title == "digits: best val_accuracy, val_loss @epoch, test_accuracy, test_loss"
    assert "val_accuracy 0.75 @2  test_accuracy 0.375" in a
    assert "val_loss 0.25 @2      test_loss 0.25" in b


@pytest.mark.parametrize(
    ("metric", "order"),
    [
        ("val_accuracy", ["c", "a", "b", "d"]),
        ("test_accuracy", ["c", "a", "b", "d"]),
        ("val_loss", ["c", "a", "b", "d"]),
    ],
)
def test_sorted_best_first(tmp_path: Path, metric: str, order: list[str]) -> None:
    for minute, (name, value) in enumerate({"a": 0.5, "b": 0.25, "c": 0.75}.items()):
        fake(tmp_path, f"digits/{name}", minute, accuracies=(value, value))
    fake(tmp_path, "digits/d", 9, accuracies=())
    lines = report(tmp_path, "--sort", metric)[2:]
    assert [line.split()[0] for line in lines] == [f"digits/{name}" for name in order]


def test_a_wide_list_is_shortened(tmp_path: Path) -> None:
    for minute in (1, 2):
        path = fake(tmp_path, f"digits/{'n' * 60}{minute}", minute)
        config = yaml.safe_load((path / "config.yaml").read_text())
        config["model"]["init_args"]["optimizer"] = {"lr": minute, "betas": [minute] * 20}
        config["data"] = {"lr": minute, "augmentation": f"strong {minute}"}
        (path / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    lines = report(tmp_path)
    assert max(map(len, lines)) == WIDTH
    assert lines[2].startswith(f"digits/{'n' * 40}…  01-02 03:01")
    assert "  optimizer.lr=1  betas=[1," in lines[2]  # not lr, which data has too
    assert lines[2].endswith("…")


@pytest.mark.parametrize(
    ("file", "text", "state", "lost"),
    [
        ("metrics.json", '{"fit": {"epo', "unfinished 2/2", "12.5"),
        ("metrics.csv", "epoch,val_loss\n0,1,2,3\n", "finished 2/2", None),
        ("config.yaml", "trainer: {max", "finished 2", "width"),
        ("environment.json", "", "finished 2/2", "0123456"),
    ],
)
def test_a_broken_file_costs_no_more_than_it_held(
    tmp_path: Path, file: str, text: str, state: str, lost: str | None
) -> None:
    fake(tmp_path, "digits/a", 1, width=8)
    fake(tmp_path, "digits/b", 2, width=16)
    broken = fake(tmp_path, "digits/c", 3)
    (broken / file).write_text(text)
    (line,) = [line for line in report(tmp_path) if line.startswith("digits/c")]
    assert f"{file} broken" in line
    assert f"  {state}  " in line
    assert "0.75 @2" in line
    assert lost is None or lost not in line
    for names in (["c"], ["a", "c"]):
        assert f"{file} broken" in "\n".join(report(tmp_path, *names)[:2])


def test_states(tmp_path: Path) -> None:
    fake(tmp_path, "e/0-new", 0, accuracies=())
    (tmp_path / "e/0-new/checkpoints/last.ckpt").unlink()
    resumed = {"resumed": [{"started": "2026-01-03T00:00:00+00:00", "command": "again"}]}
    early = fake(tmp_path, "e/1-early", 1)
    config = yaml.safe_load((early / "config.yaml").read_text())
    config["trainer"]["max_epochs"] = 20
    (early / "config.yaml").write_text(yaml.safe_dump(config))
    going_on = fake(tmp_path, "e/2-going-on", 2, environment=resumed)
    with (going_on / "metrics.csv").open("a") as file:
        file.write("2,12,0.125,0.875,0.001\n3,13,nan,nan,0.001\n")
    fake(tmp_path, "e/3-endless", 3, max_epochs=-1)
    other = fake(tmp_path, "e/4-test", 4, verb="test", accuracies=())
    (other / "config.yaml").unlink()
    (other / "metrics.json").write_text('{"test": {"checkpoint": "x.ckpt", "test_loss": 0.5}}')
    lines = json.loads("\n".join(report(tmp_path, "--json")))
    assert [(line["state"], line["best"], line["notes"]) for line in lines] == [
        ("unfinished 0/2", None, ["no checkpoint"]),
        ("stopped 2/20", 0.75, []),
        ("unfinished 4/2", 0.875, ["resumed"]),
        ("finished 2", 0.75, []),
        ("test only", None, []),
    ]
    assert lines[4]["results"] == {"test_loss": 0.5}
    assert "test_loss 0.5" in report(tmp_path)[-1]


def test_json_holds_what_the_list_says(tmp_path: Path) -> None:
    path = fake(tmp_path, "digits/a", 1, width=8)
    fake(tmp_path, "digits/b", 2, accuracies=(float("nan"),))
    a, b = json.loads("\n".join(report(tmp_path, "--json")), parse_constant=pytest.fail)
    assert a == {
        "run": "digits/a",
        "path": str(path),
        "started": "2026-01-02T03:01:00.000+00:00",
        "state": "finished 2/2",
        "finished": True,
        "epochs": 2,
        "max_epochs": 2,
        "seconds": 12.5,
        "monitor": "val_accuracy",
        "best": 0.75,
        "best_epoch": 1,
        "results": {
            "val_loss": 0.25,
            "val_accuracy": 0.75,
            "test_loss": 0.25,
            "test_accuracy": 0.375,
        },
        "git": {"commit": COMMIT, "dirty": False},
        "seed": 1,
        "notes": [],
        "settings": {"model.network.width": 8},
    }
    assert b["results"] == {}


def test_the_difference_between_two(tmp_path: Path) -> None:
    fake(tmp_path, "digits/first", 1, width=8)
    other = {"packages": {"torch": "2.10.0"}, "git": {"commit": COMMIT, "dirty": True}}
    second = fake(tmp_path, "digits/second", 2, accuracies=(0.875, 0.5), environment=other)
    (second / "git.diff").write_text("+ a line\n")
    assert report(tmp_path, "fir", "latest") == [
        "A  digits/first  finished 2/2",
        "B  digits/second  finished 2/2",
        "",
        "settings             A  B",
        "seed_everything      1  2",
        "model.network.width  8  32",
        "",
        "results        A      B       B − A",
        "best at epoch  2      1       -1",
        "val_loss       0.25   0.125   -0.125",
        "val_accuracy   0.75   0.875   +0.125",
        "test_loss      0.25   0.125   -0.125",
        "test_accuracy  0.375  0.4375  +0.0625",
        "",
        "environment     A        B",
        "git             0123456  0123456*",
        "git.diff        null     beceba7",
        "seed            1        2",
        "packages.torch  2.9.0    2.10.0",
    ]
    between = json.loads("\n".join(report(tmp_path, "first", "second", "--json")))
    assert between["settings"] == {"seed_everything": [1, 2], "model.network.width": [8, 32]}
    assert between["results"]["best at epoch"] == [2, 1]
    assert [run["run"] for run in between["runs"]] == ["digits/first", "digits/second"]


def test_sections_without_a_difference_say_so(tmp_path: Path) -> None:
    fake(tmp_path, "digits/a", 1)
    fake(tmp_path, "iris/a", 1)
    assert report(tmp_path, "digits/a", "iris/a")[3:] == [
        "settings: nothing differs",
        "",
        "results: nothing differs",
        "",
        "environment: nothing differs",
    ]


def test_one_run_is_shown_in_full(tmp_path: Path) -> None:
    path = fake(tmp_path, "digits/a", 1, width=8, accuracies=(0.1, 0.2, 0.3, 0.4, 0.5, 0.75))
    (path / "figures").mkdir()
    (path / "figures" / "learning_curves.png").touch()
    assert report(tmp_path, "digits/a") == [
        "digits/a  finished 6/2",
        str(path),
        "",
        "settings",
        "  seed_everything      1",
        "  trainer.max_epochs   2",
        "  model                project.tasks.Classification",
        "  model.network        project.models.ResNet",
        "  model.network.width  8",
        "  checkpoint.monitor   val_accuracy",
        "  checkpoint.mode      auto",
        "  run.name             digits/a",
        "",
        "metrics",
        "  fit.epochs             6",
        "  fit.seconds            12.5",
        "  fit.best_epoch         5",
        "  fit.best_val_accuracy  0.75",
        "  test.test_loss         0.25",
        "  test.test_accuracy     0.375",
        "",
        "environment",
        "  command         python -m project fit",
        "  started         2026-01-02T03:01:00.000+00:00",
        "  seed            1",
        f"  git.commit      {COMMIT}",
        "  git.dirty       false",
        "  python          3.11.7",
        "  packages.torch  2.9.0",
        "",
        "last rows of metrics.csv, which counts epochs from 0",
        "  epoch  step  val_loss  val_accuracy  lr",
        "  1      11    0.8       0.2           0.001",
        "  2      12    0.7       0.3           0.001",
        "  3      13    0.6       0.4           0.001",
        "  4      14    0.5       0.5           0.001",
        "  5      15    0.25      0.75          0.001",
        "",
        "files",
        f"  {path / 'checkpoints' / 'last.ckpt'}",
        f"  {path / 'figures' / 'learning_curves.png'}",
        f"  {path / 'metrics.csv'}",
    ]


def test_a_run_that_has_only_started_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "digits" / "a"
    path.mkdir(parents=True)
    resumed = [{"started": "S", "command": "C"}]
    (path / "environment.json").write_text(json.dumps({"resumed": resumed}))
    assert report(tmp_path, "a") == [
        "digits/a  unfinished 0, resumed, no checkpoint",
        str(path),
        *["", "settings", "  nothing", "", "metrics", "  nothing"],
        *["", "environment", "  resumed 1  S  C"],
        *["", "last rows of metrics.csv, which counts epochs from 0", "  nothing"],
        *["", "files", "  nothing"],
    ]
    assert report(tmp_path)[2].split() == ["digits/a", "unfinished", "0", "resumed,", "no",
                                           "checkpoint"]  # fmt: skip


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--sorted", "x"],
            r"no option '--sorted'\. Did you mean '--sort'\? Allowed: --experiment",
        ),
        (["--run.root=x"], r"no option '--run\.root'\. Did you mean '--root'\?"),
        (["--sort"], r"--sort needs a value: the metric to sort by\."),
        (["a", "--sort", "val_loss"], r"--sort goes with the list of all runs"),
        (["a", "a", "a"], r"runs compares two runs, not 3\."),
        (["--sort", "val_acuracy"], r"No run has the metric 'val_acuracy'\. Did you mean 'val_acc"),
        (
            ["--experiment", "digit"],
            r"no runs of 'digit' in .*\. Did you mean 'digits'\? Allowed: d",
        ),
        (["b"], r"There is no run 'b' in .* Allowed: digits/a\."),
    ],
)
def test_mistakes_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], message: str
) -> None:
    fake(tmp_path / "runs", "digits/a", 1)
    monkeypatch.setattr("project.runs.project_root", lambda: tmp_path)
    with pytest.raises(UserError, match=message):
        compare.report(args)


def test_unknown_options_list_all(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        compare.report(["-x"])
    assert all(option in str(caught.value) for option in OPTIONS)


@pytest.mark.parametrize("args", [[], ["latest"], ["--experiment", "digits"]])
def test_no_runs_at_all(tmp_path: Path, args: list[str]) -> None:
    with pytest.raises(UserError, match=r"There are no runs yet in .*python -m project fit --conf"):
        compare.report([*args, f"--root={tmp_path}"])


def test_it_answers_without_torch(tmp_path: Path) -> None:
    fake(tmp_path, "digits/a", 1)
    code = (
        "import sys; from project.cli import main; "
        f"assert main(['runs', '--root', {str(tmp_path)!r}]) == 0; "
        "print(sorted({'torch', 'lightning', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.slow
def test_a_real_run(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    options = ["--trainer.max_epochs", "1", "--trainer.limit_train_batches", "2"]
    options += ["--model.network.width", "4", "--run.root", str(tmp_path), "--run.name", "a"]
    assert main(["fit", "--config", "configs/digits.yaml", *options]) == 0
    shutil.copytree(tmp_path / "digits" / "a", tmp_path / "digits" / "b")
    config = tmp_path / "digits" / "b" / "config.yaml"
    config.write_text(config.read_text().replace("width: 4", "width: 6"))
    capsys.readouterr()
    assert main(["runs", "--root", str(tmp_path)]) == 0
    title, _, *lines = capsys.readouterr().out.splitlines()
    assert title == "digits: best val_accuracy @epoch, test_accuracy"
    assert [(line.split()[0], line.split()[-1]) for line in lines] == [
        ("digits/a", "model.network.width=4"),
        ("digits/b", "model.network.width=6"),
    ]
    assert all("  finished 1/1  " in line for line in lines)
    assert main(["runs", "--root", str(tmp_path), "--json"]) == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert set(first["results"]) >= {"train_loss", "val_loss", "val_accuracy", "test_accuracy"}
    assert first["best"] == first["results"]["val_accuracy"]
    assert first["notes"] == []
