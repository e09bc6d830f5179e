"""A PyTorch Lightning project to start from and to learn from.

Imports nothing, so that `python -m project --help` answers at once.
"""

__version__ = "0.1.0"
