from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from antiphon_core.config import Port, SettingsError, declared_settings, load, require_bounds, setting


@dataclass(frozen=True, slots=True)
class Pump:
    port: int = field(default=1, metadata={"doc": "The port.", "alias": "NIM_PORT"})
    rate_s: float = 0.5
    loud: bool = False
    name: str = "pump"
    where: Path | None = None
    mode: Literal["slow", "fast"] = "slow"
    tags: tuple[str, ...] = ()


SECTIONS: dict[str, type] = {"pump": Pump}


def pump(environ: dict[str, str] | None = None, **more: Any) -> Pump:
    loaded: Pump = load(SECTIONS, environ=environ or {}, **more)["pump"]
    return loaded


def test_settings_without_sources_have_their_defaults() -> None:
    assert pump() == Pump()


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[pump]\nport = 2\n")
    assert pump(preset={"pump": {"port": 9}}).port == 9
    assert pump(preset={"pump": {"port": 9}}, file=file).port == 2
    assert pump({"NIM_PORT": "3"}, file=file).port == 3
    assert pump({"NIM_PORT": "3", "ANTIPHON_PUMP_PORT": "4"}, file=file).port == 4
    assert pump({"ANTIPHON_PUMP_PORT": "4"}, file=file, flags={"--pump-port": "5"}).port == 5


@dataclass(frozen=True, slots=True)
class Tap:
    port: Port = 1
    second: Port | None = None


@pytest.mark.parametrize("given", ["65536", "x", "true", "1" * 5_000])
@pytest.mark.parametrize("name", ["port", "second"])
def test_a_port_is_a_number_of_16_bits(name: str, given: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="must be a port, 0 to 65535"):
        load({"tap": Tap}, environ={f"ANTIPHON_TAP_{name.upper()}": given})
    file = tmp_path / "a.toml"
    file.write_text(f"[tap]\n{name} = 65535\n")
    assert getattr(load({"tap": Tap}, environ={}, file=file)["tap"], name) == 65535
    file.write_text(f"[tap]\n{name} = true\n")
    with pytest.raises(SettingsError, match="must be a port, 0 to 65535"):
        load({"tap": Tap}, environ={}, file=file)


def test_the_file_can_be_named_by_a_variable(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[pump]\nname = 'other'\n")
    assert pump({"ANTIPHON_CONFIG": str(file)}).name == "other"


def test_text_becomes_the_declared_type() -> None:
    environ = {
        "ANTIPHON_PUMP_RATE_S": "2.5",
        "ANTIPHON_PUMP_LOUD": "yes",
        "ANTIPHON_PUMP_WHERE": "/tmp/x",
        "ANTIPHON_PUMP_MODE": "fast",
        "ANTIPHON_PUMP_TAGS": "a, b,",
    }
    assert pump(environ) == Pump(rate_s=2.5, loud=True, where=Path("/tmp/x"), mode="fast", tags=("a", "b"))


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"ANTIPHON_PUMP_PORT": "many"}, "ANTIPHON_PUMP_PORT='many': must be a whole number"),
        ({"ANTIPHON_PUMP_PORT": "-1"}, "ANTIPHON_PUMP_PORT='-1': must be a whole number, 0 or more"),
        ({"ANTIPHON_PUMP_RATE_S": "nan"}, "ANTIPHON_PUMP_RATE_S='nan': must be a number, 0 or more"),
        ({"ANTIPHON_PUMP_RATE_S": "inf"}, "must be a number, 0 or more"),
        ({"ANTIPHON_PUMP_RATE_S": "-0.5"}, "must be a number, 0 or more"),
        ({"ANTIPHON_PUMP_LOUD": "maybe"}, "must be true or false"),
        ({"ANTIPHON_PUMP_MODE": "medium"}, "must be one of slow, fast"),
        ({"ANTIPHON_PUMP_PROT": "1"}, "ANTIPHON_PUMP_PROT is not a setting; did you mean 'ANTIPHON_PUMP_PORT'"),
    ],
)
def test_invalid_settings_of_the_environment_are_rejected_by_name(environ: dict[str, str], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        pump(environ)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[pumps]\n", r"there is no section \[pumps\]; did you mean 'pump'"),
        ("[pump]\nprot = 1\n", r"\[pump\] has no setting 'prot'; did you mean 'port'"),
        ("[pump\n", "Cannot read the settings file"),
        ("[pump]\nrate_s = nan\n", r"\[pump\] rate_s=nan: must be a number, 0 or more"),
        ("[pump]\nport = inf\n", r"\[pump\] port=inf: must be a whole number"),
        ("[pump]\nport = 'x'\n", r"\[pump\] port='x': must be a whole number"),
        ("[pump]\nport = 8080.7\n", r"\[pump\] port=8080.7: must be a whole number"),
        ("[pump]\nport = true\n", r"\[pump\] port=True: must be a whole number"),
        ("[pump]\nname = ['x']\n", r"\[pump\] name=\['x'\]: must be text"),
        ("[pump]\ntags = 5\n", r"\[pump\] tags=5: must be a list"),
        ("[pump]\ntags = {a = 1}\n", r"\[pump\] tags={'a': 1}: must be a list"),
        ("[pump]\ntags = [['a']]\n", r"\[pump\] tags=\['a'\]: must be text"),
    ],
)
def test_invalid_settings_of_a_file_are_rejected_by_name(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "a.toml"
    file.write_text(content)
    with pytest.raises(SettingsError, match=says):
        pump(file=file)


@dataclass(frozen=True, slots=True)
class Sluice:
    ttl_s: int | None = None
    rate_s: float = 1.0
    wait_ms: int = 0
    volume: int = 0


def test_duration_over_100_years_is_rejected_by_name(tmp_path: Path) -> None:
    most_s = 100 * 365 * 86_400
    for name, most in (("ttl_s", most_s), ("rate_s", most_s), ("wait_ms", 1_000 * most_s)):
        variable = f"ANTIPHON_SLUICE_{name.upper()}"
        sluice = load({"sluice": Sluice}, environ={variable: f"{most}"})["sluice"]
        assert getattr(sluice, name) == most
        with pytest.raises(
            SettingsError, match=rf"^{variable}={most + 1}.*: must be {most:,} m?s \(100 years\) or less"
        ):
            load({"sluice": Sluice}, environ={variable: f"{most + 1}"})
    file = tmp_path / "a.toml"
    file.write_text("[sluice]\nttl_s = 100_000_000_000_000_000\n")
    with pytest.raises(SettingsError, match=r"^\[sluice\] ttl_s=100000000000000000: "):
        load({"sluice": Sluice}, environ={}, file=file)
    assert load({"sluice": Sluice}, environ={"ANTIPHON_SLUICE_VOLUME": f"{10**17}"})["sluice"].volume == 10**17


def test_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(b"[pump]\nname = '\xff'\n")
    with pytest.raises(SettingsError, match="Cannot read the settings file .*a.toml"):
        pump(file=file)


def test_declarations_name_variable_flag_and_doc() -> None:
    port = next(declared_settings(SECTIONS))
    assert (port.variable, port.flag, port.alias, port.doc) == (
        "ANTIPHON_PUMP_PORT",
        "--pump-port",
        "NIM_PORT",
        "The port.",
    )
    assert port.default == 1


@dataclass(frozen=True, slots=True)
class Bounded:
    section: ClassVar[str] = "bounded"
    depth: int | None = setting(3, "The depth.", least=1)
    name: str = setting("a", "The name.")

    def __post_init__(self) -> None:
        require_bounds(self)


def test_a_setting_has_a_default_a_doc_and_a_bound() -> None:
    (depth, _name) = declared_settings({"bounded": Bounded})
    assert (depth.default, depth.doc) == (3, "The depth.")
    assert (Bounded(depth=1).depth, Bounded(depth=None).depth) == (1, None)
    with pytest.raises(SettingsError, match="ANTIPHON_BOUNDED_DEPTH must be 1 or more, but is 0"):
        Bounded(depth=0)
