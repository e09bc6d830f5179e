"""A project for every problem alone, and for some together: whole, without a word of the rest."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

from project.errors import UserError
from project.starter import identity, renaming, rendering, tree
from project.starter.answers import Answers, check_name, check_problems, parsed, written
from project.starter.choice import choose, imports, module_name, table
from tests.conftest import ROOT, TINY
from tests.test_docs import links

NAME = "churn_model"
PROBLEMS = list(table()["problems"])
TOGETHER = ["text_classification,detection", "sequences,tabular,segmentation", "all"]
TEMPLATE = tree.read(ROOT)


@cache
def project_of(problems: str, name: str = NAME) -> tree.Tree:
    return rendering.rendered(TEMPLATE, Answers(name, check_problems(problems)))


def code(files: tree.Tree) -> dict[str, str]:
    return {path: str(text) for path, text in files.items() if path.endswith(".py")}


def resolved(document: str, target: str) -> str:
    parts: list[str] = []
    for part in (PurePosixPath(document).parent / target.partition("#")[0]).parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/".join(parts)


def missing_imports(files: tree.Tree) -> set[str]:
    """What is imported from the project and not there."""
    modules = {module_name(path) for path in code(files)}
    found = set()
    for path, text in code(files).items():
        for module, name in imports(text):
            if module.split(".")[0] not in (NAME, "tests"):
                continue
            if module not in modules and f"{module}.{name}" not in modules:
                found.add(f"{path}: {module}")
            elif name and f"{module}.{name}" not in modules:
                origin = next(p for p in code(files) if module_name(p) == module)
                if not re.search(rf"\b{name}\b", str(files[origin])):
                    found.add(f"{path}: {module}.{name}")
    return found


def test_every_config_belongs_to_a_problem_or_to_all() -> None:
    owned = [path for problem in table()["problems"].values() for path in problem["configs"]]
    owned += [path for path in table()["always"] if path.endswith(".yaml")]
    assert sorted(owned) == sorted(
        str(p.relative_to(ROOT)) for p in (ROOT / "configs").glob("*.yaml")
    )


def test_with_every_problem_nothing_is_left_out() -> None:
    assert choose(TEMPLATE, PROBLEMS).gone == set()
    kept = project_of("all")
    own = ("project/starter/", "tests/starter/", "docs/starting.md")
    expected = {re.sub("^project/", f"{NAME}/", p) for p in TEMPLATE if not p.startswith(own)}
    assert set(kept) == expected | {".template.toml"}


@pytest.mark.parametrize("problems", [*PROBLEMS, *TOGETHER])
def test_the_project_is_whole(problems: str, tmp_path: Path) -> None:
    files = project_of(problems)
    for path, text in code(files).items():
        ast.parse(text, path)
    assert not missing_imports(files)

    # no word of this repository, nor of what was not chosen
    gone = choose(TEMPLATE, list(check_problems(problems))).gone
    unknown = [re.escape(re.sub("^project/", f"{NAME}/", path)) for path in gone]
    unknown += [re.escape(module_name(re.sub("^project/", f"{NAME}/", path))) for path in gone]
    old = r"(?<![\w.\[])project\.(?!get\()[a-z]|(?<![\w/])project/|-m project\b|import project\b"
    word = re.compile("|".join([old, "starter: ", "/starter\b", *(rf"{u}(?!\w)" for u in unknown)]))
    for path, content in files.items():
        if isinstance(content, str) and path not in ("tools/update.py", "requirements.lock"):
            found = word.search(content)
            assert not found, f"{path}: {found and content[found.start() - 40 : found.end() + 40]}"

    for path, text in files.items():
        for name, target in links(str(text)) if path.endswith(".md") else []:
            there = resolved(path, target)
            assert there in files or any(each.startswith(f"{there}/") for each in files), target
            if there.startswith("tests/") and name.strip("`").isidentifier():
                assert f"def {name.strip('`')}(" in str(files[there])

    # no test that tests nothing, no dependency that nobody names
    for path, text in code(files).items():
        if PurePosixPath(path).name.startswith("test_"):
            assert re.search(r"^\s*def test_", text, re.MULTILINE), path
    assert ("faker" in str(files["requirements.lock"])) == bool(
        {"text_classification", "multimodal"} & set(check_problems(problems))
    )
    assert ("faster-coco-eval" in str(files["pyproject.toml"])) == (
        "detection" in check_problems(problems)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ml", NAME, "zoo_of_wild_and_tame_creatures"])
def test_names_of_any_length_leave_a_tidy_project(name: str, tmp_path: Path) -> None:
    rendering.render(ROOT, tmp_path, Answers(name, check_problems("tabular,segmentation")))
    assert not (tmp_path / ".ruff_cache").exists()
    for words in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *words, "--no-cache", "."]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_a_project_passes_its_tests_and_trains(tmp_path: Path) -> None:
    rendering.render(ROOT, tmp_path, Answers(NAME, check_problems("tabular")))
    tests = ["models", "data", "test_architecture.py", "test_docs.py", "test_help.py",
             "test_packaging.py", "test_extending.py"]  # fmt: skip
    tests = [f"tests/{name}" for name in tests]
    fit = [NAME, "fit", "--config", "configs/tabular.yaml", *TINY]
    for words in (["pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *tests], fit):
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert list((tmp_path / "runs" / "tabular").glob("*/checkpoints/best.ckpt"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Churn", "'Churn' can't be a package's name"),
        ("class", "'class' can't be"),
        ("2fast", "'2fast' can't be"),
        ("a" * 31, "30 at most"),
        ("tests", "'tests' is the name of another folder"),
        ("json", "a module 'json' already"),
        ("torch", "a module 'torch' already"),
        ("project", "a module 'project' already"),
    ],
)
def test_a_name_that_would_not_do_is_refused(name: str, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        check_name(name)


def test_problems_are_named_in_any_order_and_once() -> None:
    assert check_problems("segmentation, tabular_regression,tabular_classification") == (
        "tabular", "segmentation",
    )  # fmt: skip
    assert check_problems("all") == tuple(PROBLEMS)
    with pytest.raises(UserError, match=r"no problem 'tables'. Did you mean 'tabular'"):
        check_problems("tables")
    with pytest.raises(UserError, match="Name a problem"):
        check_problems(" , ")


def test_answers_come_back_as_they_were_written() -> None:
    answers = Answers("a", ("tabular",), description='Says "yes" \\ and é', licence="none")
    assert parsed(written(answers)) == answers
    assert parsed(written(answers) + 'of_a_later_version = "x"\n') == answers


def test_what_is_said_of_the_project_is_its_own() -> None:
    answers = Answers(NAME, ("tabular",), description='Who "leaves".', author="Ann Lee")
    files = identity.of_its_own(TEMPLATE, answers)
    assert str(files["README.md"]).startswith(f'# {NAME}\n\nWho "leaves".\n\n')
    assert "Ann Lee" in str(files["LICENSE"])
    assert 'description = "Who \\"leaves\\"."\n' in str(files["pyproject.toml"])
    free = identity.of_its_own(TEMPLATE, Answers(NAME, ("tabular",), licence="none"))
    assert "All rights reserved" in str(free["LICENSE"])
    assert "MIT" not in str(free["README.md"])
    assert not re.search("^license", str(free["pyproject.toml"]), re.MULTILINE)


def test_the_tables_of_pyproject_keep_their_names() -> None:
    text = str(project_of("tabular")["pyproject.toml"])
    assert tomllib.loads(text)["project"]["scripts"] == {NAME: f"{NAME}.cli:main"}
    assert tomllib.loads(text)["project"]["name"] == NAME


def test_the_word_is_left_alone_where_it_is_no_package() -> None:
    for text in ('parsed["project"]', '{"project": {}}', "self.project.x", "my_project.y"):
        assert renaming.renamed(text, "ml") == text
    changed = {
        "import project": "import ml", "from project.data import x": "from ml.data import x",
        "python -m project fit": "python -m ml fit", "`project fit`": "`ml fit`",
        "[a](../project/x.py)": "[a](../ml/x.py)", '["-m", "project"]': '["-m", "ml"]',
        'f"project.{name}"': 'f"ml.{name}"', 'include = ["project*"]': 'include = ["ml*"]',
    }  # fmt: skip
    assert {old: renaming.renamed(old, "ml") for old in changed} == changed
    code = "project = {}\nproject.get('project.data')\n"
    assert renaming.renamed_code(code, "ml") == "project = {}\nproject.get('ml.data')\n"
    code = "import project.data\nproject.data.x(project)\n"
    assert renaming.renamed_code(code, "ml") == "import ml.data\nml.data.x(ml)\n"
