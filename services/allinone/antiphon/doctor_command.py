"""`antiphon doctor`: checks this machine, the settings, and the services that they name, and prints remedies.

The exit status is 1 if a check found a fault.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator

from antiphon import checks
from antiphon.checks import Finding, Level
from antiphon.settings_flags import add_settings, load
from antiphon.talk import api
from antiphon_core.config import SettingsError

SIGNS = {Level.OK: "✓", Level.WARNING: "!", Level.FAULT: "✗"}


def declare(parser: argparse.ArgumentParser) -> None:
    api.declare(parser)
    add_settings(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    found = asyncio.run(_find(options))
    for finding in found:
        print(*_lines(finding), sep="\n")
    return 1 if any(finding.level is Level.FAULT for finding in found) else 0


async def _find(options: argparse.Namespace) -> list[Finding]:
    found = [*checks.of_machine()]
    try:
        loaded = load(options)
    except SettingsError as error:
        return [*found, Finding(Level.FAULT, "settings", str(error))]
    found += [*checks.of_settings(loaded), *await checks.of_store(loaded.store), *await checks.of_profiles(loaded)]
    return [*found, *await checks.of_server(options.url)]


def _lines(finding: Finding) -> Iterator[str]:
    yield f"{SIGNS[finding.level]} {finding.subject:<12} {finding.message}"
    if finding.remedy:
        yield f"{'':<15}{finding.remedy}"
