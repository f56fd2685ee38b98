"""Settings: declared once, as frozen dataclasses, and loaded from a file, environment variables and flags.

Each service declares one dataclass of settings, a *section*. The name of a field has the unit in it; `_s` and `_ms`
make it a duration, which has an upper bound. Its metadata has a `doc` text and, where NVIDIA's NIM has an environment
variable for the same setting, that variable as `alias`. Each field can be set in three ways:

    file                  [edge]            in a TOML file named by --config or ANTIPHON_CONFIG
                          port = 8080
    environment variable  ANTIPHON_EDGE_PORT=8080      (or its alias, with lower precedence)
    flag                  --edge-port 8080

Precedence, lowest first: default < file < alias < ANTIPHON_* < flag. An empty alias counts as not set. A setting that
is not declared is an error. A section may have a method `warnings()`, which yields (message, explanation) for settings
that are valid but unsafe.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

ENV_PREFIX = "ANTIPHON_"
CONFIG_VARIABLE = ENV_PREFIX + "CONFIG"

PORT_MAX = 2**16 - 1
Port = Annotated[int, "a port"]
"""The type of a setting that is a port. Some servers take a larger number for another port, its lowest 16 bits."""
DURATION_MAX_S = 100 * 365 * 86_400
"""A setting whose name ends in _s or _ms is at most this long, 100 years: databases and clocks cannot add much more to
the present."""
_UNITS_PER_S = {"s": 1, "ms": 1_000}

Sections = Mapping[str, type]

_Value = TypeVar("_Value")


class SettingsError(Exception):
    """A setting that is unknown or has an invalid value. The message names the setting, its source and a remedy."""


def setting(default: _Value, doc: str, *, least: float | None = None) -> _Value:
    """Declares a setting in its section. `least`: `require_bounds` rejects a lower number."""
    return field(default=default, metadata={"doc": doc, "least": least})


def require_bounds(section: Any) -> None:
    """Checks the bounds of all settings of a section; None is unlimited. SettingsError."""
    for each in fields(section):
        value, least = getattr(section, each.name), each.metadata.get("least")
        if value is not None and least is not None and value < least:
            variable = Setting(section.section, each, type(value)).variable
            raise SettingsError(f"{variable} must be {least} or more, but is {value}.")


@dataclass(frozen=True, slots=True)
class Setting:
    """One declared setting."""

    section: str
    field: Field[Any]
    type: Any

    @property
    def variable(self) -> str:
        return f"{ENV_PREFIX}{self.section}_{self.field.name}".upper()

    @property
    def alias(self) -> str | None:
        return self.field.metadata.get("alias")

    @property
    def flag(self) -> str:
        return f"--{self.section}-{self.field.name}".replace("_", "-")

    @property
    def doc(self) -> str:
        return str(self.field.metadata.get("doc", ""))

    @property
    def default(self) -> Any:
        factory = self.field.default_factory
        return factory() if factory is not MISSING else self.field.default


def declared_settings(sections: Sections) -> Iterator[Setting]:
    """Every setting of the sections, in the order of declaration."""
    for name, section in sections.items():
        yield from _settings_of(name, section)


@cache
def _settings_of(name: str, section: type[Any]) -> tuple[Setting, ...]:
    hints = get_type_hints(section, include_extras=True)
    return tuple(Setting(section=name, field=each, type=hints[each.name]) for each in fields(section))


def load(
    sections: Sections,
    *,
    environ: Mapping[str, str],
    flags: Mapping[str, str] | None = None,
    file: Path | None = None,
    preset: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Loads one instance of each section. `flags` maps flag names (with dashes) to their text; `preset` has values, by
    section and field, that replace declared defaults. `file` replaces the one that ANTIPHON_CONFIG names.

    SettingsError: an unknown name, or a value that does not fit its type.
    """
    config = environ.get(CONFIG_VARIABLE)
    path = file or (Path(config) if config else None)
    from_file = _read_file(path, sections) if path else {}
    _reject_unknown_variables(sections, environ)
    values: dict[str, dict[str, Any]] = {name: dict((preset or {}).get(name, {})) for name in sections}
    for setting in declared_settings(sections):
        found = _find(setting, from_file, environ, flags or {})
        if found is not None:
            source, given = found
            values[setting.section][setting.field.name] = _convert(setting.type, given, source)
            _require_duration(setting.field.name, values[setting.section][setting.field.name], source)
    return {name: section(**values[name]) for name, section in sections.items()}


def _find(
    setting: Setting, from_file: Mapping[str, Any], environ: Mapping[str, str], flags: Mapping[str, str]
) -> tuple[str, Any] | None:
    """(source, value) of a setting, from the source with the highest precedence; None if no source has it."""
    if setting.flag in flags:
        return setting.flag, flags[setting.flag]
    if setting.variable in environ:
        return setting.variable, environ[setting.variable]
    if setting.alias and environ.get(setting.alias):
        return setting.alias, environ[setting.alias]
    section = from_file.get(setting.section, {})
    if setting.field.name in section:
        return f"[{setting.section}] {setting.field.name}", section[setting.field.name]
    return None


def _read_file(path: Path, sections: Sections) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # ValueError: it is not TOML, or not UTF-8
        raise SettingsError(f"Cannot read the settings file {path}: {error}") from error
    known = {name: [field.name for field in fields(section)] for name, section in sections.items()}
    for name, members in content.items():
        if name not in known or not isinstance(members, dict):
            raise SettingsError(f"{path}: there is no section [{name}]{_hint(name, known)}")
        for member in members:
            if member not in known[name]:
                raise SettingsError(f"{path}: [{name}] has no setting '{member}'{_hint(member, known[name])}")
    return content


def _reject_unknown_variables(sections: Sections, environ: Mapping[str, str]) -> None:
    known = {setting.variable for setting in declared_settings(sections)} | {CONFIG_VARIABLE}
    for variable in environ:
        if variable.startswith(ENV_PREFIX) and variable not in known:
            raise SettingsError(f"{variable} is not a setting{_hint(variable, known)}")


def _hint(name: str, known: Any) -> str:
    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else "."


def _convert(kind: Any, given: Any, source: str) -> Any:
    """Converts `given`, a text or a value from TOML, to the declared type. SettingsError names the `source`."""
    options = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        if given in (None, ""):
            return None
        kind = next(option for option in options if option is not type(None))
        return _convert(kind, given, source)
    if get_origin(kind) is Literal:
        if given not in options:
            raise SettingsError(f"{source}={given!r}: must be one of {', '.join(map(str, options))}.")
        return given
    if get_origin(kind) is tuple:
        parts = [part.strip() for part in given.split(",") if part.strip()] if isinstance(given, str) else given
        if not isinstance(parts, list):
            raise SettingsError(f"{source}={given!r}: must be a list.")
        return tuple(_convert(options[0], part, source) for part in parts)
    return _scalar(kind, given, source)


def _require_duration(name: str, value: Any, source: str) -> None:
    """SettingsError: the setting is a duration, by the unit in its name, and longer than DURATION_MAX_S."""
    unit = name.rpartition("_")[2]
    most = DURATION_MAX_S * _UNITS_PER_S.get(unit, math.inf)
    if isinstance(value, (int, float)) and value > most:
        raise SettingsError(f"{source}={value}: must be {most:,} {unit} (100 years) or less.")


def _scalar(kind: Any, given: Any, source: str) -> Any:
    try:
        if isinstance(given, (list, dict)):
            raise TypeError
        if kind is bool:
            return given if isinstance(given, bool) else _BOOLEANS[str(given).lower()]
        if kind == Port:
            return _number(int, given, most=PORT_MAX)
        return _number(kind, given) if kind in (int, float) else kind(given)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise SettingsError(f"{source}={given!r}: must be {_KIND_NAMES.get(kind, kind.__name__)}.") from error


def _number(kind: type[int] | type[float], given: Any, *, most: float = math.inf) -> float:
    """Converts to a number from 0 to `most`. ValueError: it is outside, infinite, NaN, or of another type. A timeout of
    NaN would never pass, because NaN compares as false. `int` would truncate 2.5, and read true as 1."""
    if isinstance(given, bool) or (kind is int and isinstance(given, float)):
        raise ValueError
    number = kind(given)
    if not 0 <= number <= most or number == math.inf:
        raise ValueError
    return number


_BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_KIND_NAMES = {
    bool: "true or false",
    int: "a whole number, 0 or more",
    Port: f"a port, 0 to {PORT_MAX}",
    float: "a number, 0 or more",
    str: "text",
    Path: "a path",
}
