"""`antiphon version`: prints the version."""

from __future__ import annotations

import argparse

from antiphon_core.version import VERSION


def declare(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)


def _run(_options: argparse.Namespace) -> int:
    print(f"antiphon {VERSION}")
    return 0
