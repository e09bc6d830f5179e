"""Reasons beside dependencies, a lock that fits them, the bootstrap and the Makefile."""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
CONFIG = tomllib.loads(PYPROJECT)


def load_bootstrap():
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "tools" / "bootstrap.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bootstrap = load_bootstrap()
GROUPS = CONFIG["dependency-groups"]
DIRECT = CONFIG["project"]["dependencies"] + bootstrap.expand_group(GROUPS, "dev")
TARGETS = re.findall(r"^([a-zA-Z0-9_-]+):", MAKEFILE, flags=re.MULTILINE)


def make(*args, cwd=ROOT):
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    env |= {"NO_COLOR": "1"}
    env.pop("PY", None)
    return subprocess.run(
        ["make", *args], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )


# pyproject.toml


@pytest.mark.parametrize("requirement", DIRECT)
def test_every_dependency_has_a_reason(requirement):
    line = next(line for line in PYPROJECT.splitlines() if f'"{requirement}",' in line)
    reason = line.partition("#")[2]
    assert len(reason.split()) >= 3, f"{requirement} stands without a reason"


def test_dev_holds_the_other_groups():
    dev = bootstrap.expand_group(GROUPS, "dev")
    assert all(isinstance(requirement, str) for requirement in dev)
    assert set(dev) >= {*bootstrap.expand_group(GROUPS, "test"), *GROUPS["lint"]}
    assert len(dev) == len(set(dev))


# requirements.lock


def pinned_versions(name):
    return re.findall(rf"^{re.escape(name)}==([^ ;\\]+)", LOCK, flags=re.MULTILINE)


def test_the_lock_names_no_host_and_no_folder():
    assert "://" not in LOCK
    assert not re.search(r"[ =]/[a-z]", LOCK), "an absolute path"


def test_every_pin_has_a_hash():
    assert len(bootstrap.pins(LOCK)) > len(DIRECT)
    for name, block in bootstrap.pins(LOCK):
        assert re.match(rf"{re.escape(name)}==\S+ ", block), f"{name} is not pinned exactly"
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", block), f"{name} has no hash"


@pytest.mark.parametrize("requirement", DIRECT)
def test_the_lock_satisfies(requirement):
    wanted = Requirement(requirement)
    versions = pinned_versions(canonicalize_name(wanted.name))
    assert versions, f"{requirement} is not in the lock: make lock"
    for version in versions:
        assert wanted.specifier.contains(version), f"the lock pins {version}: make lock"


def test_the_malicious_releases_are_neither_locked_nor_allowed():
    wanted = next(Requirement(r) for r in DIRECT if r.startswith("lightning"))
    for version in ("2.6.2", "2.6.3"):
        assert version not in pinned_versions("lightning") + pinned_versions("pytorch-lightning")
        assert not wanted.specifier.contains(version)


def test_the_lock_keeps_to_the_constraints():
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    constraints = [line for line in text.splitlines() if not line.startswith("#")]
    assert bootstrap.torch_requirements(LOCK) == constraints


def test_the_lock_can_build_the_project():
    wanted = [Requirement(requirement) for requirement in CONFIG["build-system"]["requires"]]
    assert [requirement.name for requirement in wanted] == ["setuptools"]
    assert wanted[0].specifier.contains(*pinned_versions("setuptools"))


# tools/bootstrap.py


@pytest.fixture
def checkout(tmp_path):
    for name in ("pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("pyproject.toml", '"tensorboard",', '"tensorboard>=2",'),
        ("pyproject.toml", '"hypothesis",', ""),
        ("pyproject.toml", '"project*"', '"other*"'),
        ("requirements.lock", "lightning==2", "lightning==3"),
    ],
)
def test_what_gets_installed_changes_the_fingerprint(checkout, file, old, new):
    before = bootstrap.fingerprint(checkout)
    edit(checkout / file, old, new)
    assert bootstrap.fingerprint(checkout) != before


def test_another_torch_changes_the_fingerprint(checkout):
    assert bootstrap.fingerprint(checkout) != bootstrap.fingerprint(checkout, "wheels")


def test_nothing_else_changes_the_fingerprint(checkout):
    before = bootstrap.fingerprint(checkout)
    edit(checkout / "pyproject.toml", "line-length = 100", "line-length = 90")
    edit(checkout / "pyproject.toml", 'version = "0.1.0"', 'version = "0.2.0"')
    edit(checkout / "pyproject.toml", "# metrics", "# figures")
    assert bootstrap.fingerprint(checkout) == before


def test_a_dependency_missing_from_the_lock_is_named(checkout):
    bootstrap.check_lock(checkout)
    edit(checkout / "pyproject.toml", '"tensorboard",', '"tensorboard", "Some_Package>=1",')
    with pytest.raises(SystemExit, match=r"does not pin some-package.*make lock"):
        bootstrap.check_lock(checkout)


def test_another_torch_leaves_the_rest_of_the_lock_as_it_is():
    kept = bootstrap.without_default_torch(LOCK)
    names = [name for name, _ in bootstrap.pins(kept)]
    dropped = {name for name, _ in bootstrap.pins(LOCK)} - set(names)
    assert {"torch", "torchvision", "triton", "nvidia-cublas", "cuda-bindings"} <= dropped
    assert {"torchmetrics", "lightning", "sympy", "setuptools"} <= set(names)
    assert all(block in LOCK and "--hash=" in block for _, block in bootstrap.pins(kept))


def test_torch_index_is_a_folder_or_an_address(tmp_path):
    assert bootstrap.index_options(str(tmp_path)) == ["--no-index", "--find-links", str(tmp_path)]
    assert bootstrap.index_options("https://a.b/cpu") == ["--index-url", "https://a.b/cpu"]


def test_an_unknown_installer_is_refused():
    with pytest.raises(SystemExit, match=r"INSTALLER=conda .* pip"):
        bootstrap.choose_installer("conda")


def test_a_folder_that_is_no_environment_is_not_emptied(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(SystemExit, match="no virtual environment"):
        bootstrap.make_venv(tmp_path, "")
    assert (tmp_path / "thesis.tex").exists()


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """An environment that looks finished, whose remaking is recorded instead of done."""
    commands = []
    monkeypatch.setattr(bootstrap, "run", commands.append)
    version = ".".join(map(str, sys.version_info[:3]))
    (tmp_path / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {version}\n")
    (tmp_path / bootstrap.INDEX_FILE).write_text("wheels")
    (tmp_path / bootstrap.STAMP).write_text("the fingerprint of older dependencies")
    return tmp_path, commands


def test_a_finished_environment_is_kept(finished):
    venv, commands = finished
    bootstrap.make_venv(venv, "wheels")
    assert commands == []


def test_an_unfinished_environment_is_made_anew(finished):
    venv, commands = finished
    (venv / bootstrap.STAMP).unlink()
    bootstrap.make_venv(venv, "wheels")
    assert commands == [[sys.executable, "-m", "venv", "--clear", str(venv)]]


def test_an_environment_of_another_python_is_made_anew(finished):
    venv, commands = finished
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.1.9\n")
    bootstrap.make_venv(venv, "wheels")
    assert len(commands) == 1


def test_an_environment_with_another_torch_is_made_anew_and_remembers_it(finished):
    venv, commands = finished
    bootstrap.make_venv(venv, "other")
    assert len(commands) == 1
    assert bootstrap.earlier_torch_index(venv) == "other"


def test_a_failing_command_is_tried_again_and_then_explained(tmp_path, capfd):
    log = tmp_path / "log"
    command = [sys.executable, "-c", f"open({str(log)!r}, 'a').write('x'); exit(7)"]
    with pytest.raises(SystemExit, match="make install"):
        bootstrap.run(command, attempts=3)
    assert log.read_text() == "xxx"
    assert "Attempt 3 of 3 failed" in capfd.readouterr().out


def test_the_lock_of_a_dead_installer_is_taken_over(tmp_path):
    lock = tmp_path / ".venv.lock"
    lock.write_text("4194305\n")  # larger than any process number
    with bootstrap.one_installer(lock):
        assert lock.read_text() == f"{os.getpid()}\n"


def test_others_wait_for_the_installer_until_it_is_killed(tmp_path):
    lock = tmp_path / ".venv.lock"
    hold = (
        "import bootstrap, pathlib, sys, time\n"
        "with bootstrap.one_installer(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    command = [sys.executable, "-c", hold, str(lock)]
    env = os.environ | {"PYTHONPATH": str(ROOT / "tools")}
    start = {"env": env, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **start) as first:
        assert first.stdout.readline() == "held\n"
        with subprocess.Popen(command, **start) as second:
            assert second.stdout.readline() == f"Waiting for the install by process {first.pid}.\n"
            first.kill()
            assert second.stdout.readline() == "held\n"
            second.kill()


def test_an_old_python_reaches_the_message_about_its_version():
    code = (ROOT / "tools" / "bootstrap.py").read_text(encoding="utf-8")
    ast.parse(code, feature_version=(3, 7))
    before = code[: code.index("if sys.version_info < (3, 11)")]
    assert "tomllib\n" not in before
    assert "def " not in before, "an old Python fails on today's signatures"


# Makefile


def test_every_target_has_help_and_is_phony():
    assert len(TARGETS) > 10
    phony = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)", MAKEFILE, flags=re.MULTILINE).group(1)
    assert set(phony.replace("\\", "").split()) == set(TARGETS)
    for target in TARGETS:
        assert re.search(rf"^{target}:.*  ## \S", MAKEFILE, flags=re.MULTILINE), target


@pytest.mark.parametrize("args", [(), ("help",)])
def test_help_lists_every_target_in_its_group(args):
    shown = make(*args).stdout
    groups = re.findall(r"^##@ (.*)$", MAKEFILE, flags=re.MULTILINE)
    assert re.findall(r"^  ([a-z-]+) +\S", shown, flags=re.MULTILINE) == TARGETS
    assert re.findall(r"^(\S.*)$", shown, flags=re.MULTILINE) == groups


def test_arguments_keep_their_quotes():
    shown = make("-n", "train", "PY=python", "CONFIG=x.yaml", 'ARGS=--a "b c"').stdout
    assert shown == 'python -m project fit --config x.yaml --a "b c"\n'


@pytest.mark.parametrize("target", TARGETS)
def test_another_environment_is_left_alone(target):
    shown = make("-n", target, "PY=python")
    assert shown.returncode == 0, shown.stderr
    assert ("bootstrap" in shown.stdout) == (target == "install")


def test_a_missing_python_is_one_clear_line(tmp_path):
    done = make("install", "PYTHON=python2.0", f"VENV={tmp_path / 'venv'}")
    assert done.returncode != 0
    assert done.stdout == (
        "No python2.0 here. Name a Python of 3.11 or newer: make install PYTHON=python3.12\n"
    )
