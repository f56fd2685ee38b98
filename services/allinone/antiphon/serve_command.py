"""`antiphon serve`: runs targets, in this process or in several processes that it starts and replaces (`--workers`)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from antiphon import banner, event_loop, lifecycle, logs, stop_notice, stop_signals
from antiphon.settings import Settings
from antiphon.settings_flags import add_settings, flags_of, load
from antiphon.targets import GROUPS, TARGETS, Process, build, expand


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="all", help=f"any of {', '.join([*TARGETS, *GROUPS])}, comma-separated")
    parser.add_argument("--workers", metavar="N", help="how many processes run them, of one core each (default 1)")
    add_settings(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    stop_signals.end_at_once_on_any()
    flags = flags_of(options)
    if options.workers is not None:
        flags.setdefault("--serve-workers", options.workers)
    names = expand(options.target.split(","))
    loaded = load(options, flags=flags)
    logs.configure(loaded.log)
    loaded.print_warnings(names)  # a target's settings are in the section of its name
    if loaded.serve.workers > 1:
        return _run_workers(names, loaded)
    event_loop.run(_run_targets(names, loaded))
    return 0


async def _run_targets(names: Sequence[str], loaded: Settings) -> None:
    process = Process(loaded)
    with lifecycle.building():
        parts = build(names, process)
    await lifecycle.run(
        parts,
        on_started=lambda: logs.announce(banner.addresses(process)),
        on_signal=partial(stop_notice.log_signal, process),
        drain_time=process.drain_time,
    )


def _run_workers(names: Sequence[str], loaded: Settings) -> int:
    from antiphon.workers import service

    try:
        return event_loop.run(service.run(names, loaded))
    except service.WorkerFailed as error:
        print(f"antiphon: {error}", file=sys.stderr)
        return error.status
