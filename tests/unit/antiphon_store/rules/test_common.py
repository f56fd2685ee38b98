"""Checks of single values. Which field is named for what: `antiphon_store.testing.arguments`."""

from __future__ import annotations

import pytest

from antiphon_core import limits
from antiphon_core.clock import ManualClock
from antiphon_core.errors import InvalidRequest, TooLarge
from antiphon_store.arguments import CHECKS
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.rules import common as rules
from antiphon_store.service import StoreService


def test_a_range_includes_both_ends() -> None:
    for value in (1, 5):
        rules.check_range(value, 1, 5, "n")
    for value, code in ((0, "integer_below_min_value"), (6, "integer_above_max_value")):
        with pytest.raises(InvalidRequest, match="'n' must be from 1 to 5, but is") as caught:
            rules.check_range(value, 1, 5, "n")
        assert caught.value.code == code


@pytest.mark.parametrize("tenant", ["default", "a", "team/blue-7", "!~", "x" * 128])
def test_tenants_are_printable_ascii(tenant: str) -> None:
    rules.check_tenant(tenant, "tenant")


@pytest.mark.parametrize("tenant", ["", "a b", "a\n", "ä", "x" * 129])
def test_other_tenants_are_refused(tenant: str) -> None:
    with pytest.raises(InvalidRequest):
        rules.check_tenant(tenant, "tenant")


def test_a_holder_is_counted_in_bytes() -> None:
    rules.check_holder("ü" * 127, "holder")
    with pytest.raises(InvalidRequest):
        rules.check_holder("ü" * 128, "holder")


@pytest.mark.parametrize("prompt_id", ["", "pmpt_1", "conv_" + "0" * 48, "pmpt_" + "A" * 48])
def test_the_id_of_a_prompt_has_its_prefix(prompt_id: str) -> None:
    rules.check_prompt_id("pmpt_" + "0" * 48, "id")
    with pytest.raises(InvalidRequest) as raised:
        rules.check_prompt_id(prompt_id, "id")
    assert raised.value.field == "id"


@pytest.mark.parametrize("version", [0, -1, limits.PROMPT_VERSIONS_ITEMS_MAX + 1])
def test_versions_of_prompts_are_counted_from_one(version: int) -> None:
    CHECKS["version"](limits.PROMPT_VERSIONS_ITEMS_MAX, "version")
    with pytest.raises(InvalidRequest) as raised:
        CHECKS["version"](version, "version")
    assert raised.value.field == "version"


def test_the_content_of_a_prompt_is_there_and_bounded() -> None:
    rules.check_prompt_content(b" " * limits.PROMPT_CONTENT_BYTES_MAX, "content")
    with pytest.raises(InvalidRequest):
        rules.check_prompt_content(b"", "content")
    with pytest.raises(TooLarge):
        rules.check_prompt_content(b" " * (limits.PROMPT_CONTENT_BYTES_MAX + 1), "content")


async def test_every_call_about_prompts_looks_at_its_arguments(clock: ManualClock) -> None:
    store = StoreService(MemoryRows(clock))
    await store.open()
    prompt_id = "pmpt_" + "0" * 48
    assert (await store.put_prompt("t", prompt_id, 1, b"{}")).content == b"{}"
    for call in (
        store.put_prompt("t", "x", 1, b"{}"),
        store.get_prompt("t", prompt_id, version=0),
        store.list_prompts(""),
        store.delete_prompt("t", "x"),
    ):
        with pytest.raises(InvalidRequest):
            await call
