from __future__ import annotations

import re

import pytest

from antiphon_core.ids import (
    DerivedIds,
    RandomIds,
    SequentialIds,
    is_conversation_id,
    is_response_id,
    is_session_id,
    is_tenant,
    item_tag,
    new_conversation_id,
    new_fork_id,
    new_item_id,
    new_request_id,
    new_response_id,
    tree_tag,
)


def test_random_ids_have_the_asked_length_and_do_not_repeat() -> None:
    ids = RandomIds()
    drawn = {ids.hex(31) for _ in range(1_000)}
    assert len(drawn) == 1_000
    assert all(len(text) == 31 for text in drawn)


def test_a_continuation_shares_the_tree_tag_of_its_parent_and_nothing_else() -> None:
    ids = RandomIds()
    root = new_response_id(ids)
    child = new_response_id(ids, relative=root)
    assert tree_tag(child) == tree_tag(root) is not None
    assert child != root


def test_a_response_in_a_conversation_shares_the_conversations_tag() -> None:
    conversation = "conv_" + "ab" * 24
    assert tree_tag(new_response_id(RandomIds(), relative=conversation)) == "ab" * 8


def test_a_response_after_a_foreign_id_starts_a_tree() -> None:
    assert is_response_id(new_response_id(RandomIds(), relative="not-one-of-ours"))


@pytest.mark.parametrize("relative", ["resp_" + "a" * 48, "conv_" + "a" * 48])
def test_a_fork_is_in_the_tree_that_its_source_names(relative: str) -> None:
    chosen = new_fork_id(SequentialIds(), relative=relative)
    assert chosen.startswith("conv_")
    assert tree_tag(chosen) == "a" * 16


def test_a_fork_is_in_no_tree_if_its_source_names_none() -> None:
    chosen = new_fork_id(SequentialIds(), relative="free")
    assert is_session_id(chosen)
    assert tree_tag(chosen) is None


@pytest.mark.parametrize(
    "text", ["", "resp_", "resp_" + "g" * 48, "resp_" + "a" * 47, "RESP_" + "a" * 48, "msg_" + "a" * 48]
)
def test_what_is_not_a_response_id(text: str) -> None:
    assert not is_response_id(text)
    assert tree_tag(text) is None


def test_session_ids_are_short_and_plain() -> None:
    assert is_session_id("conv_1-A")
    assert not is_session_id("")
    assert not is_session_id("a b")
    assert not is_session_id("a" * 129)


def test_a_conversation_has_a_tree_of_its_own() -> None:
    made = new_conversation_id(RandomIds())
    assert is_conversation_id(made)
    assert is_session_id(made)
    assert tree_tag(new_response_id(RandomIds(), relative=made)) == tree_tag(made)
    assert not is_conversation_id(made.replace("conv_", "resp_"))
    assert not is_conversation_id(made[:-1])


def test_an_item_id_has_the_tree_tag_of_its_response() -> None:
    response_id = new_response_id(RandomIds())
    item_id = new_item_id(RandomIds(), "msg", relative=response_id)
    assert item_tag(item_id) == tree_tag(response_id)
    assert item_tag(new_item_id(RandomIds(), "ctco", relative="none")) is not None


@pytest.mark.parametrize(
    "item_id", ["", "msg_1", "item", 48 * "0", "msg_" + 47 * "0", "msg_" + 49 * "0", "MSG_" + 48 * "0"]
)
def test_an_item_id_of_another_form_has_no_tree_tag(item_id: str) -> None:
    assert item_tag(item_id) is None


def test_sequential_ids_count_up() -> None:
    ids = SequentialIds()
    assert new_item_id(ids, "msg") == "msg_" + "1".rjust(48, "0")
    assert new_request_id(ids) == "req_" + "2".rjust(32, "0")


def test_derived_ids_follow_from_their_seed_alone() -> None:
    one, same, other = DerivedIds("resp_a"), DerivedIds("resp_a"), DerivedIds("resp_b")
    first = [one.hex(48) for _ in range(100)]
    assert first == [same.hex(48) for _ in range(100)]
    assert len({*first, other.hex(48)}) == 101
    assert all(re.fullmatch("[0-9a-f]{48}", each) for each in first)


def test_what_a_tenant_is_called() -> None:
    assert all(is_tenant(name) for name in ("default", "acme/eu-1", "a" * 128, "*"))
    assert not any(is_tenant(name) for name in ("", "two words", "é", "a" * 129, "line\n"))
