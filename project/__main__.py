"""`python -m project`."""

import sys

from project.cli import main

if __name__ == "__main__":
    sys.exit(main())
