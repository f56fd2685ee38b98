"""`antiphon serve`: some targets in this process."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from antiphon import banner
from antiphon.settings import Settings
from antiphon.settings_flags import add_settings, load
from antiphon.targets import GROUPS, TARGETS, Process, build, expand
from antiphon_core import event_loop, lifecycle, logs


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="all", help=f"any of {', '.join([*TARGETS, *GROUPS])}, comma-separated")
    add_settings(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    names = expand(options.target.split(","))
    loaded = load(options)
    logs.configure(loaded.log)
    loaded.print_warnings(names)  # a target's section has its name
    event_loop.run(_run_targets(names, loaded))
    return 0


async def _run_targets(names: Sequence[str], loaded: Settings) -> None:
    process = Process(loaded)
    await lifecycle.run(build(names, process), on_started=lambda: print(banner.addresses(process), flush=True))
