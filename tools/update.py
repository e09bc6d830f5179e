"""Take what the template changed since this project was made.

python tools/update.py [--template PATH_OR_ADDRESS] [--to TAG_OR_COMMIT]
"""

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / ".template.toml"


def newest(clone: Path) -> str:
    """The newest tag that is a version, or the newest commit where there is none."""
    command = ["git", "tag", "--sort=-version:refname"]
    tags = subprocess.run(command, cwd=clone, check=True, capture_output=True, text=True).stdout
    versions = [tag for tag in tags.split() if re.fullmatch(r"v?\d+(\.\d+)*", tag)]
    return versions[0] if versions else "HEAD"


def main() -> int:
    """Clone the template, and let it merge itself into this project."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--template", help="where the template is, if it moved")
    parser.add_argument("--to", help="a tag or commit of it; by default the newest version")
    options = parser.parse_args()
    if not RECORD.is_file():
        print(
            f"error: there is no {RECORD.name}: this was not made from a template.", file=sys.stderr
        )
        return 2
    address = options.template or tomllib.loads(RECORD.read_text("utf-8"))["template"]
    if not address:
        print("error: where is the template? make update TEMPLATE=path or address", file=sys.stderr)
        return 2
    if Path(address).is_dir():
        address = str(Path(address).resolve())
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "template"
        if subprocess.run(["git", "clone", "--quiet", address, str(clone)]).returncode:
            return 2
        version = options.to or newest(clone)
        if subprocess.run(["git", "checkout", "--quiet", version], cwd=clone).returncode:
            return 2
        command = [sys.executable, "-m", "project", "update", str(ROOT), "--address", address]
        return subprocess.run(command, cwd=clone).returncode


if __name__ == "__main__":
    sys.exit(main())
