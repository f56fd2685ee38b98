"""`antiphon version`."""

from __future__ import annotations

import argparse
from importlib.metadata import version


def declare(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)


def _run(_options: argparse.Namespace) -> int:
    print(f"antiphon {version('antiphon')}")
    return 0
