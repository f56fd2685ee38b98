"""Settings on the command line: a flag for each, and the settings that come of the flags that were given."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from antiphon import settings
from antiphon.settings import SECTIONS, Settings
from antiphon_core import config
from antiphon_core.config import Setting

Flags = dict[str, str]


def add_settings(command: argparse.ArgumentParser, *, only: Callable[[Setting], bool] = lambda _setting: True) -> None:
    """Adds --config, and a flag for every declared setting that the command uses."""
    command.add_argument("--config", type=Path, help="a TOML file with settings")
    group = command.add_argument_group("settings")
    for setting in filter(only, config.declared(SECTIONS)):
        group.add_argument(setting.flag, metavar="VALUE", help=setting.doc.replace("%", "%%"))


def flags_of(options: argparse.Namespace) -> Flags:
    """The flags of settings that were given, by their names."""
    names = [setting.flag for setting in config.declared(SECTIONS)]
    given = {name: getattr(options, name.removeprefix("--").replace("-", "_"), None) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def load(
    options: argparse.Namespace,
    *,
    flags: Flags | None = None,
    preset: Mapping[str, Mapping[str, Any]] | None = None,
) -> Settings:
    """The settings of this process. `flags` replaces those of `options`. SettingsError as in antiphon.settings.load."""
    given = flags_of(options) if flags is None else flags
    return settings.load(environ=os.environ, flags=given, file=options.config, preset=preset)
