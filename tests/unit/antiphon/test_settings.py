from __future__ import annotations

from pathlib import Path

import pytest

from antiphon import settings
from antiphon_core.config import SettingsError, declared_settings

ROOT = Path(__file__).parents[3]


def test_variables_and_flags_set_the_fields_of_their_section() -> None:
    loaded = settings.load(environ={"ANTIPHON_STORE_PORT": "7"}, flags={"--edge-port": "8"}, file=None)
    assert (loaded.store.port, loaded.edge.port) == (7, 8)


def test_nims_variables_are_aliases() -> None:
    environ = {"NIM_HTTP_API_PORT": "9", "NIM_JSONL_LOGGING": "1", "NIM_LOG_LEVEL": "ERROR"}
    loaded = settings.load(environ=environ, flags={}, file=None)
    assert (loaded.edge.port, loaded.log.json, loaded.log.level) == (9, True, "ERROR")


def test_an_empty_alias_counts_as_not_set() -> None:
    empty = {"NIM_HTTP_API_PORT": "", "NIM_LOG_LEVEL": ""}
    defaults = settings.load(environ={}, flags={}, file=None)
    assert settings.load(environ=empty, flags={}, file=None) == defaults


@pytest.mark.parametrize("level", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"])
def test_every_log_level_of_nim_is_accepted(level: str) -> None:
    assert settings.load(environ={"NIM_LOG_LEVEL": level}, flags={}, file=None).log.level == level


@pytest.mark.parametrize("section", [name for name in settings.SECTIONS if hasattr(settings.SECTIONS[name], "port")])
@pytest.mark.parametrize("port", ["65536", "70000", "-1", "1.5"])
def test_a_port_that_no_machine_has_is_rejected(section: str, port: str) -> None:
    variable = f"ANTIPHON_{section.upper()}_PORT"
    with pytest.raises(SettingsError, match=f"{variable}='{port}': must be a port, 0 to 65535"):
        settings.load(environ={variable: port}, flags={}, file=None)
    loaded = settings.load(environ={variable: "65535"}, flags={}, file=None)
    assert getattr(loaded, section).port == 65535


def test_an_undeclared_variable_is_refused_with_a_suggestion() -> None:
    with pytest.raises(SettingsError, match="did you mean 'ANTIPHON_STORE_URL'"):
        settings.load(environ={"ANTIPHON_STORE_ULR": "memory://"}, flags={}, file=None)


def test_every_setting_is_explained() -> None:
    unexplained = [
        setting.variable for setting in declared_settings(settings.SECTIONS) if not setting.doc.endswith(".")
    ]
    assert not unexplained


def test_the_reference_page_is_up_to_date() -> None:
    page = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    assert page == settings.as_markdown(), "run `make docs`"


@pytest.mark.parametrize("workers", ["0", "257"])
def test_a_number_of_workers_outside_1_to_256_is_refused(workers: str) -> None:
    with pytest.raises(SettingsError, match="ANTIPHON_SERVE_WORKERS must be 1 to 256, but is"):
        settings.load(environ={"ANTIPHON_SERVE_WORKERS": workers}, flags={}, file=None)
