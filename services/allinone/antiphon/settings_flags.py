"""Settings on the command line: declares a flag for each setting, and loads the settings with the given flags."""

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


def add_settings(command: argparse.ArgumentParser, *, only: Callable[[Setting], bool] | None = None) -> None:
    """Adds --config and a flag for each setting that `only` accepts. Without `only` there is a flag for every setting;
    --help leaves them out then, and --help-settings lists them."""
    command.add_argument("--config", type=Path, help="a TOML file with settings")
    if only is None:
        command.add_argument("--help-settings", action=_HelpSettings, nargs=0, help="list the flags of all settings")
    group = command.add_argument_group("settings")
    for setting in filter(only, config.declared_settings(SECTIONS)):
        group.add_argument(setting.flag, metavar="VALUE", help=_doc(setting) if only is not None else argparse.SUPPRESS)


class _HelpSettings(argparse.Action):
    """Prints the flags of all settings and ends the process."""

    def __call__(self, parser: argparse.ArgumentParser, *_arguments: object) -> None:
        flags = argparse.ArgumentParser(prog=parser.prog, usage=argparse.SUPPRESS, add_help=False)
        sections: dict[str, argparse._ArgumentGroup] = {}
        for setting in config.declared_settings(SECTIONS):
            section = sections.setdefault(setting.section, flags.add_argument_group(setting.section))
            section.add_argument(
                setting.flag, metavar="VALUE", help=f"{_doc(setting)} (default: %(default)s)", default=setting.default
            )
        flags.print_help()
        parser.exit()


def _doc(setting: Setting) -> str:
    """The doc of a setting, with `%` escaped for argparse."""
    return setting.doc.replace("%", "%%")


def flags_of(options: argparse.Namespace) -> Flags:
    """The values of the settings' flags that were given, by flag."""
    names = [setting.flag for setting in config.declared_settings(SECTIONS)]
    given = {name: getattr(options, name.removeprefix("--").replace("-", "_"), None) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def load(
    options: argparse.Namespace,
    *,
    flags: Flags | None = None,
    preset: Mapping[str, Mapping[str, Any]] | None = None,
) -> Settings:
    """The settings of this process. `flags` replaces the flags in `options`. SettingsError: see
    antiphon.settings.load."""
    given = flags_of(options) if flags is None else flags
    return settings.load(environ=os.environ, flags=given, file=options.config, preset=preset)
