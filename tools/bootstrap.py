"""Make or refresh the virtual environment: python tools/bootstrap.py .venv (standard library only).

`make` calls this whenever pyproject.toml or requirements.lock is newer than the environment's
stamp. The stamp holds a fingerprint of what was installed, so an edit that changes no dependency
costs a second, not minutes. Whatever ends an install early, a kill included, leaves no stamp: the
next call installs again.
"""

import argparse
import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import TextIO

# Before the first line that an old Python cannot run; and nothing below that it cannot parse.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(
        f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}. "
        "If you have a newer one, name it: make install PYTHON=python3.12"
    )

import tomllib

ROOT = Path(__file__).resolve().parent.parent
TORCH = ("torch", "torchvision")
# torch's default Linux build needs these for NVIDIA's GPUs; another build brings its own, or none.
DEFAULT_BUILD = re.compile(r"(torch|torchvision|triton|nvidia-.*|cuda-.*)$")
STAMP = ".ready"  # in the environment: the fingerprint of what was installed
INDEX_FILE = "torch-index.txt"  # in the environment: the TORCH_INDEX that later calls keep to


def main() -> None:
    """Install what the lock pins, unless the stamp says that it is there."""
    args = parse_args()
    installer = choose_installer(args.installer)
    check_venv_module()
    with one_installer(args.venv.with_name(f"{args.venv.name}.lock")):
        torch_index = args.torch_index or earlier_torch_index(args.venv)
        key = fingerprint(ROOT, torch_index)
        stamp = args.venv / STAMP
        if stamp.exists() and stamp.read_text(encoding="utf-8") == key:
            stamp.touch()
            print(f"{args.venv} is up to date.")
            return
        check_lock(ROOT)
        print(
            f"Installing the packages of requirements.lock into {args.venv} with {installer}. "
            "The first time this takes minutes and up to 6 GB.",
            flush=True,
        )
        start = time.monotonic()
        make_venv(args.venv, torch_index)
        stamp.unlink(missing_ok=True)
        install(args.venv, installer, torch_index)
        stamp.write_text(key, encoding="utf-8")
        print(f"{args.venv} is ready after {time.monotonic() - start:.0f} s.")


def parse_args() -> argparse.Namespace:
    """Read the command line, with the environment's INSTALLER and TORCH_INDEX as defaults."""
    environ = os.environ.get
    parser = argparse.ArgumentParser(description="Make or refresh the virtual environment.")
    parser.add_argument("venv", nargs="?", type=Path, default=ROOT / ".venv")
    parser.add_argument("--installer", default=environ("INSTALLER", ""), help="uv or pip")
    parser.add_argument(
        "--torch-index",
        default=environ("TORCH_INDEX", ""),
        help="index or folder with another build of torch, such as the one for the CPU only",
    )
    return parser.parse_args()


def choose_installer(asked: str) -> str:
    """Take uv where it is on the PATH, pip elsewhere or when asked for."""
    choices = ["uv", "pip"] if shutil.which("uv") else ["pip"]
    if asked and asked not in choices:
        sys.exit(f"INSTALLER={asked} is not to be had here. Choose from: {', '.join(choices)}")
    return asked or choices[0]


def earlier_torch_index(venv: Path) -> str:
    """Give the TORCH_INDEX of the last install, to keep to it until `make clean-all`."""
    file = venv / INDEX_FILE
    return file.read_text(encoding="utf-8") if file.exists() else ""


def check_venv_module() -> None:
    """End with one line where a system's Python comes without what makes environments."""
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        version = ".".join(map(str, sys.version_info[:2]))
        sys.exit(
            f"{sys.executable} lacks the venv module. "
            f"On Debian or Ubuntu: apt install python{version}-venv"
        )


def fingerprint(root: Path, torch_index: str = "") -> str:
    """Hash everything that decides what gets installed, and nothing else of pyproject.toml."""
    pyproject = read_pyproject(root)
    project = pyproject["project"]
    wanted = {
        "build": [pyproject.get("build-system"), pyproject.get("tool", {}).get("setuptools")],
        "project": {
            key: project.get(key) for key in ("name", "dependencies", "requires-python", "scripts")
        },
        "groups": pyproject.get("dependency-groups"),
        "lock": (root / "requirements.lock").read_text(encoding="utf-8"),
        "python": sys.version_info[:2],
        "torch_index": torch_index,
    }
    return hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()


def read_pyproject(root: Path) -> dict:
    """Parse pyproject.toml."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def check_lock(root: Path) -> None:
    """End when pyproject.toml names a package that the lock does not pin."""
    pyproject = read_pyproject(root)
    dev = expand_group(pyproject["dependency-groups"], "dev")
    wanted = pyproject["project"]["dependencies"] + dev
    pinned = {name for name, _ in pins((root / "requirements.lock").read_text(encoding="utf-8"))}
    missing = sorted({name_of(requirement) for requirement in wanted} - pinned)
    if missing:
        sys.exit(
            f"requirements.lock does not pin {', '.join(missing)}, which pyproject.toml names. "
            "Run: make lock"
        )


def expand_group(groups: dict, name: str) -> list[str]:
    """List the requirements of a dependency group and of the groups that it includes."""
    requirements = []
    for item in groups[name]:
        included = isinstance(item, dict)
        requirements += expand_group(groups, item["include-group"]) if included else [item]
    return requirements


def name_of(requirement: str) -> str:
    """Cut the package's name out of a requirement, spelt as the lock spells it."""
    name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
    return re.sub(r"[._-]+", "-", name).lower()


def pins(lock: str) -> list[tuple[str, str]]:
    """Split a lock into pairs of a package's name and its lines: the pin and the hashes."""
    blocks = re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)
    return [(name_of(block), block) for block in blocks if re.match(r"[a-z0-9]", block)]


def without_default_torch(lock: str) -> str:
    """Drop the default build of torch from a lock, and the packages that only it needs."""
    return "".join(block for name, block in pins(lock) if not DEFAULT_BUILD.match(name))


def torch_requirements(lock: str) -> list[str]:
    """List torch and torchvision as locked, without hashes: another build has other files."""
    return [block.split()[0] for name, block in pins(lock) if name in TORCH]


@contextlib.contextmanager
def one_installer(path: Path) -> Generator[None]:
    """Hold the lock file, waiting while another process holds it, whose number stands in the file.

    The operating system gives the lock back when its holder ends, however it ends: there is no
    stale lock to judge. The installer that we start inherits it, so where `make` is killed and its
    pip goes on, the others still wait.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        os.set_inheritable(file.fileno(), True)
        if not try_lock(file):
            print(f"Waiting for the install by process {path.read_text().strip()}.", flush=True)
            while not try_lock(file):
                time.sleep(0.2)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def try_lock(file: TextIO) -> bool:
    """Take the operating system's lock on an open file; False where another process holds it."""
    try:
        if os.name == "nt":
            import msvcrt

            file.seek(2**20)  # far from the number: a locked byte cannot be read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:  # some clusters' file systems have no locks
        print(f"No file locks here ({error}): start one install at a time.", flush=True)
    return True


def install(venv: Path, installer: str, torch_index: str) -> None:
    """Install the lock, every file checked against its hash, then this project in place.

    The project is built with the lock's setuptools: nothing gets in that the lock does not pin.
    """
    command = installer_command(venv, installer)
    if torch_index:
        install_with_other_torch(venv, command, torch_index)
    else:
        lock = ROOT / "requirements.lock"
        run([*command, "--require-hashes", "-r", str(lock)], attempts=3)
    run([*command, "--no-deps", "--no-build-isolation", "-e", str(ROOT)])


def install_with_other_torch(venv: Path, command: list[str], torch_index: str) -> None:
    """Install the lock but for torch, then torch at the locked version from another index.

    In this order, all that torch needs besides a GPU's libraries is there by its hash already.
    """
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    lock = venv / "without-torch.lock"
    lock.write_text(without_default_torch(text), encoding="utf-8")
    run([*command, "--no-deps", "--require-hashes", "-r", str(lock)], attempts=3)
    run([*command, *index_options(torch_index), *torch_requirements(text)], attempts=3)


def make_venv(venv: Path, torch_index: str) -> None:
    """Create the environment, but keep one that is finished and of this Python and this torch.

    A killed installer can leave half a package that looks whole, so without a stamp we start anew.
    """
    config = venv / "pyvenv.cfg"
    if venv.exists() and any(venv.iterdir()) and not config.exists():
        sys.exit(
            f"{venv} is no virtual environment, and not empty. "
            "Remove it, or choose another folder: make install VENV=..."
        )
    version = ".".join(map(str, sys.version_info[:2]))
    keep = (
        (venv / STAMP).exists()
        and earlier_torch_index(venv) == torch_index
        and re.search(rf"^version.*= {version}\b", config.read_text(), re.MULTILINE)
    )
    if not keep:
        run([sys.executable, "-m", "venv", "--clear", str(venv)])
        (venv / INDEX_FILE).write_text(torch_index, encoding="utf-8")


def installer_command(venv: Path, installer: str) -> list[str]:
    """Give the start of an install command; only a terminal is shown the progress.

    uv compiles to bytecode only when told to. Where Python may not write bytecode either, every
    `import lightning` would then spend 20 s on compiling.
    """
    python = str(venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    quiet = [] if sys.stdout.isatty() else ["--quiet"]
    if installer == "uv":
        return ["uv", "pip", "install", "--python", python, "--compile-bytecode", *quiet]
    return [python, "-m", "pip", "install", "--disable-pip-version-check", *quiet]


def index_options(torch_index: str) -> list[str]:
    """Turn the index or folder of TORCH_INDEX into options that pip and uv share."""
    if Path(torch_index).is_dir():
        return ["--no-index", "--find-links", str(Path(torch_index).resolve())]
    return ["--index-url", torch_index]


def run(command: list[str], attempts: int = 1) -> None:
    """Run a command, again where a download may have broken off: the finished ones are kept."""
    for attempt in range(1, attempts + 1):
        # close_fds: the command inherits the lock of `one_installer`.
        done = subprocess.run(command, stdin=subprocess.DEVNULL, close_fds=False)
        if done.returncode == 0:
            return
        print(f"Attempt {attempt} of {attempts} failed: {' '.join(command)}", flush=True)
    sys.exit(
        "The install failed; the installer's own message stands above. A broken connection, a full "
        "disk? Mend that and run `make install` again: finished downloads are kept. A mirror or a "
        "proxy is set in pip's or uv's own configuration. Not enough room, and no GPU? "
        "`make install TORCH_INDEX=...` takes the smaller torch from the index that you name."
    )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("Stopped. Run `make install` to go on: finished downloads are kept.")
