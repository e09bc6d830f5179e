"""Help: complete, agreeing with the real signatures, and without torch."""

import ast
import inspect
import subprocess
import sys

import pytest

import project.data
import project.models
import project.tasks
from project.callbacks import Checkpoint, Predictions, Progress
from project.cli import LIGHTNING_VERBS, OTHER_VERBS, catalog, help, main, options
from project.cli.commands import RunSettings
from project.runs import project_root
from project.trainer import Trainer

EXPORTED = [
    getattr(package, name)
    for package in (project.tasks, project.models, project.data)
    for name in package.__all__
]
SCHEDULES = options.choices(catalog.find("project.tasks.Classification").parameters["schedule"])
OTHERS = [Checkpoint, Predictions, Progress, RunSettings, Trainer]
ALL = [*EXPORTED, *OTHERS, *(getattr(project.optim, p.rpartition(".")[2]) for p in SCHEDULES)]
VERBS = [*LIGHTNING_VERBS, *OTHER_VERBS]
PAGE = help.of_verb("fit")


def lines_of(page):
    return [line.strip() for line in page.splitlines()]


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_the_catalog_agrees_with_the_signature(cls):
    real = inspect.signature(cls).parameters
    read = catalog.find(f"{cls.__module__}.{cls.__qualname__}").parameters
    assert list(read) == list(real)
    for name, parameter in real.items():
        default = read[name].default
        if parameter.default is inspect.Parameter.empty:
            assert default is None
        elif type(parameter.default) in (str, int, float, bool, tuple, type(None)):
            assert ast.literal_eval(default) == parameter.default
        else:
            assert (
                type(parameter.default).__name__ in default or parameter.default.__name__ in default
            )


@pytest.mark.parametrize("cls", [*EXPORTED, *OTHERS[:-1]], ids=lambda cls: cls.__name__)
def test_every_argument_has_a_meaning(cls):
    read = catalog.find(f"{cls.__module__}.{cls.__qualname__}")
    assert read.summary
    assert all(parameter.meaning for parameter in read.parameters.values())


@pytest.mark.parametrize(
    ("key", "package"), [("model", "tasks"), ("model.network", "models"), ("data", "data")]
)
def test_fit_names_every_class_and_every_argument(key, package):
    module = getattr(project, package)
    concrete = [
        catalog.find(f"project.{package}.{name}")
        for name in module.__all__
        if not catalog.find(f"project.{package}.{name}").unimplemented
        and not catalog.find(f"project.{package}.{name}").is_dataclass
    ]
    assert concrete
    for found in concrete:
        name = found.path.rpartition(".")[2]
        assert any(
            line.removeprefix("project.models.").startswith(f"{name}: ") for line in lines_of(PAGE)
        )
        for parameter in set(found.parameters) - options.supplied():
            assert f"--{key}.{parameter}" in PAGE


def test_fit_shows_types_defaults_and_choices():
    lines = lines_of(PAGE)
    assert any(line.startswith("--data.batch_size int = 64 ") for line in lines)
    assert any(
        "--data.augmentation none | light | medium | strong = light" in line for line in lines
    )
    assert any(
        line.startswith("--model.network.depths tuple[int, ...] = [1, 1, 1]") for line in lines
    )
    assert any(line.startswith("--model.network CLASS (required)") for line in lines)
    assert any(line.startswith("--trainer.accumulate_grad_batches = 1 ") for line in lines)
    assert "--model.optimizer.lr" in PAGE
    assert "--model.optimizer.params" not in PAGE
    assert "--print_config" in PAGE


def test_a_default_given_by_the_data_module_is_shown_not_the_loaders_own():
    assert "--data.loader.num_workers int | auto = 0 " in PAGE
    assert "--data.loader.prefetch_factor int = 2 " in PAGE


def test_what_the_data_supplies_is_no_option():
    assert options.supplied() >= {"class_names", *project.batches.SIZES}
    for name in options.supplied():
        assert f".{name} " not in PAGE


def test_the_trainer_still_has_what_the_help_shows():
    parameters = set(inspect.signature(Trainer).parameters)
    assert set(help.MOST_USED) <= parameters
    assert set(help.MOST_USED) >= help.ONLY_WHEN_TRAINING


def test_overview_names_every_verb_and_config():
    page = help.overview()
    for name, meaning in {**LIGHTNING_VERBS, **OTHER_VERBS}.items():
        assert any(line.split() == [name, *meaning.split()] for line in page.splitlines())
    configs = list((project_root() / "configs").rglob("*.yaml"))
    assert configs
    for path in configs:
        first = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        shown = f"  {path.relative_to(project_root())}"
        line = next(each for each in page.splitlines() if each.startswith(shown))
        assert " ".join(first.split()[:4]) in line


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_page_that_fits_the_screen(verb, capsys):
    assert main([verb, "--help"]) == 0
    page = capsys.readouterr().out
    assert verb in page
    assert max(map(len, page.splitlines())) <= help.WIDTH
    assert ("--resume [RUN]" in page) == (verb == "fit")
    assert ("--checkpoint.monitor" in page) == (verb == "fit")
    assert ("--predictions.path" in page) == (verb == "predict")


@pytest.mark.parametrize("args", [["--help"], *([verb, "--help"] for verb in VERBS)])
def test_help_imports_no_torch(args):
    code = (
        "import sys; from project.cli import main; "
        f"assert main({args!r}) == 0; "
        "heavy = {'torch', 'lightning', 'jsonargparse', 'numpy'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, cwd=project_root()
    )


@pytest.mark.parametrize(
    ("text", "meanings"),
    [
        (
            "One.\n\nArgs:\n    a: First,\n        second line.\n    b (int): Two.",
            {"a": "First, second line.", "b": "Two."},
        ),
        ("One.\n\nArgs:\n    a: First.\n\nRaises:\n    b: Not this.", {"a": "First."}),
        ("One.", {}),
    ],
)
def test_meanings(text, meanings):
    assert catalog.meanings_in(text) == meanings


def test_a_name_that_does_not_exist_is_an_error_and_a_dynamic_one_is_not(tmp_path, monkeypatch):
    package = tmp_path / "some_package"
    package.mkdir()
    (package / "__init__.py").write_text("from some_package.inner import *\n")
    (package / "inner.py").write_text("class A:\n    def __init__(self, *, x=1, **rest): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert catalog.find("some_package.Anything") is None
    assert catalog.find("some_package.inner.A").takes_all
    with pytest.raises(LookupError, match=r"some_package\.inner\.B"):
        catalog.find("some_package.inner.B")
