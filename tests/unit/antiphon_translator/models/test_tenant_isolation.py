"""Isolation of tenants in caches: the salt that an engine gets, and what happens without one."""

from __future__ import annotations

import logging

import pytest

from antiphon_core.errors import EngineMisconfigured
from antiphon_core.ports.translator import Turn
from antiphon_core.telemetry.log_fields import REMEDY
from antiphon_translator.models.tenant_isolation import SharedCaches, salt_of

SALTED = Turn("resp_1", 1, b"{}", cache_salt="s")


def test_salt_of_the_engine_depends_on_salt_and_model() -> None:
    assert salt_of(SALTED, "m") == salt_of(SALTED, "m")
    others = {salt_of(SALTED, "n"), salt_of(Turn("resp_1", 1, b"{}", cache_salt="t"), "m"), salt_of(SALTED, "m")}
    assert len(others) == 3
    assert all(len(salt) == 43 for salt in others), "TensorRT-LLM and antiphon_tokens take up to 256 characters"


def test_turn_without_a_salt_is_an_error_whose_log_line_names_the_setting(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(EngineMisconfigured, match="the turn came without a salt"):
        salt_of(Turn("resp_1", 1, b"{}"), "m")
    assert "cache_salt_keys_file" in vars(caplog.records[0])[REMEDY]


def test_second_tenant_of_a_shared_cache_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    shared = SharedCaches()
    with caplog.at_level(logging.WARNING):
        shared.note("a", "m")
        shared.note("b", "n")
        assert not caplog.messages, "each model has one tenant"
        shared.note("b", "m")
        shared.note("c", "n")
    (message,) = caplog.messages
    assert "several tenants use the model 'm'" in message
