"""`antiphon config`: prints the values of all settings, or the reference page of settings."""

from __future__ import annotations

import argparse

from antiphon import banner, settings
from antiphon.settings import SECTIONS, Settings
from antiphon.settings_flags import add_settings, load
from antiphon_core import config


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--markdown", action="store_true", help="print the reference page instead")
    add_settings(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.markdown:
        print(settings.as_markdown(), end="")
        return 0
    loaded = load(options)
    for setting in config.declared_settings(SECTIONS):
        print(_line(setting, loaded))
    loaded.print_warnings(SECTIONS)
    return 0


def _line(setting: config.Setting, loaded: Settings) -> str:
    value = getattr(getattr(loaded, setting.section), setting.field.name)
    shown = banner.without_password(value) if isinstance(value, str) else value
    return f"{setting.section}.{setting.field.name} = {shown!r}"
