"""Checks of single values. `antiphon_store.testing.arguments` tests the fields that errors name."""

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
def test_printable_ascii_tenants_are_accepted(tenant: str) -> None:
    rules.check_tenant(tenant, "tenant")


@pytest.mark.parametrize("tenant", ["", "a b", "a\n", "ä", "x" * 129])
def test_a_tenant_with_other_characters_or_lengths_is_rejected(tenant: str) -> None:
    with pytest.raises(InvalidRequest):
        rules.check_tenant(tenant, "tenant")


def test_the_length_limit_of_a_holder_counts_bytes() -> None:
    rules.check_holder("ü" * 127, "holder")
    with pytest.raises(InvalidRequest):
        rules.check_holder("ü" * 128, "holder")


@pytest.mark.parametrize("prompt_id", ["", "pmpt_1", "conv_" + "0" * 48, "pmpt_" + "A" * 48])
def test_a_malformed_prompt_id_is_rejected(prompt_id: str) -> None:
    rules.check_prompt_id("pmpt_" + "0" * 48, "id")
    with pytest.raises(InvalidRequest) as raised:
        rules.check_prompt_id(prompt_id, "id")
    assert raised.value.field == "id"


@pytest.mark.parametrize("version", [0, -1, limits.PROMPT_VERSIONS_ITEMS_MAX + 1])
def test_a_prompt_version_outside_its_range_is_rejected(version: int) -> None:
    CHECKS["version"](limits.PROMPT_VERSIONS_ITEMS_MAX, "version")
    with pytest.raises(InvalidRequest) as raised:
        CHECKS["version"](version, "version")
    assert raised.value.field == "version"


def test_empty_or_oversized_prompt_content_is_rejected() -> None:
    rules.check_prompt_content(b" " * limits.PROMPT_CONTENT_BYTES_MAX, "content")
    with pytest.raises(InvalidRequest):
        rules.check_prompt_content(b"", "content")
    with pytest.raises(TooLarge):
        rules.check_prompt_content(b" " * (limits.PROMPT_CONTENT_BYTES_MAX + 1), "content")


async def test_every_prompt_operation_validates_its_arguments(clock: ManualClock) -> None:
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
