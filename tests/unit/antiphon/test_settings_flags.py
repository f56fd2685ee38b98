from __future__ import annotations

import argparse

import pytest

from antiphon.settings import SECTIONS
from antiphon.settings_flags import add_settings, flags_of, load
from antiphon_core import config


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    add_settings(made)
    return made


def test_given_flags_are_collected_by_name() -> None:
    options = parser().parse_args(["--edge-port=1", "--store-url", "memory://"])
    assert flags_of(options) == {"--edge-port": "1", "--store-url": "memory://"}
    assert load(options).edge.port == 1


def test_flags_override_the_preset_of_a_command() -> None:
    options = parser().parse_args(["--edge-port=1"])
    assert load(options, preset={"edge": {"port": 2}, "store": {"port": 3}}).edge.port == 1
    assert load(options, preset={"edge": {"port": 2}, "store": {"port": 3}}).store.port == 3
    assert load(options, flags={"--edge-port": "4"}).edge.port == 4


def test_a_command_has_only_the_flags_that_it_uses(capsys: pytest.CaptureFixture[str]) -> None:
    made = argparse.ArgumentParser()
    add_settings(made, only=lambda setting: setting.section == "log")
    assert flags_of(made.parse_args(["--log-level=INFO"])) == {"--log-level": "INFO"}
    with pytest.raises(SystemExit):
        made.parse_args(["--edge-port=1"])
    assert "unrecognized arguments: --edge-port=1" in capsys.readouterr().err


def test_help_settings_lists_all_settings(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        parser().parse_args(["--help-settings"])
    listed = capsys.readouterr().out
    assert all(setting.flag in listed for setting in config.declared_settings(SECTIONS))
    assert "(default: 8000)" in " ".join(listed.split())
