"""Command lines of the verbs that are not Lightning's. Nothing here imports torch."""

import argparse
from typing import NoReturn

from project.errors import UserError


class Parser(argparse.ArgumentParser):
    """Says what is wrong as this project says everything that is wrong."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}. See {self.prog} --help.")
