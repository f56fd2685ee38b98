"""Rules as pure checks. Which field is named for what: `antiphon_store.testing.arguments`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core import limits
from antiphon_core.clock import ManualClock
from antiphon_core.errors import InvalidRequest, TooLarge
from antiphon_core.ports.store import Fence, TurnCommit
from antiphon_store.arguments import CHECKS
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.rules import common as rules
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft


def test_a_range_includes_both_ends() -> None:
    for value in (1, 5):
        rules.check_range(value, 1, 5, "n")
    for value, code in ((0, "integer_below_min_value"), (6, "integer_above_max_value")):
        with pytest.raises(InvalidRequest, match="'n' must be from 1 to 5, but is") as caught:
            rules.check_range(value, 1, 5, "n")
        assert caught.value.code == code


@pytest.mark.parametrize("tenant", ["default", "a", "team/blue-7", "!~", "x" * 128])
def test_tenants_are_printable_ascii(tenant: str) -> None:
    rules.check_tenant(tenant)


@pytest.mark.parametrize("tenant", ["", "a b", "a\n", "ä", "x" * 129])
def test_other_tenants_are_refused(tenant: str) -> None:
    with pytest.raises(InvalidRequest):
        rules.check_tenant(tenant)


def test_a_holder_is_counted_in_bytes() -> None:
    rules.check_holder("ü" * 127)
    with pytest.raises(InvalidRequest):
        rules.check_holder("ü" * 128)


def test_a_record_may_be_as_large_as_the_limit() -> None:
    record = draft(input_items=b"[]", output_items=b"[]")
    body = b" " * (limits.RECORD_BYTES_MAX - 4)
    rules.check_record(replace(record, body=body))
    with pytest.raises(TooLarge):
        rules.check_record(replace(record, body=body + b" "))


def test_relatives_share_their_tree() -> None:
    root = draft()
    tag = root.id.removeprefix("resp_")[:16]
    rules.check_record(draft(root, session_id="conv_" + tag + "0" * 32))
    rules.check_record(draft(root, session_id="any-other-name"))
    with pytest.raises(InvalidRequest, match="another tree"):
        rules.check_record(draft(root, session_id="conv_" + "0" * 48))


def test_a_commit_is_fenced_by_its_own_session() -> None:
    record = draft(session_id="s")
    rules.check_turn_commit(TurnCommit(record, Fence("s", 1)), "commit")
    with pytest.raises(InvalidRequest):
        rules.check_turn_commit(TurnCommit(record, Fence("other", 1)), "commit")


def test_items_need_ids() -> None:
    rules.check_content(draft(input_items=b'[{"id":"a"},{"id":""}]'))
    with pytest.raises(InvalidRequest, match=r"input_items\[1\].id") as caught:
        rules.check_content(draft(input_items=b'[{"id":"a"},{}]'))
    assert caught.value.code == "invalid_type"


@pytest.mark.parametrize(
    ("given", "tight"),
    [
        (b"[]", b"[]"),
        (b"[ ]", b"[]"),
        (b' [{"id":"a b"}]\n', b'[{"id":"a b"}]'),
        (b'[ {"id":"a"}, {"id":"b"}\t]', b'[{"id":"a"}, {"id":"b"}]'),
    ],
)
def test_tight_arrays_have_no_white_space_at_their_ends(given: bytes, tight: bytes) -> None:
    record = rules.tight(draft(input_items=given, output_items=given))
    assert (record.input_items, record.output_items) == (tight, tight)


def test_a_tight_record_is_left_alone() -> None:
    record = draft()
    assert rules.tight(record) is record


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
