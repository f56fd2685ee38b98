from __future__ import annotations

import pytest

from antiphon_core.ids import is_conversation_id, is_response_id, tree_tag
from antiphon_store_client.ids import new_conversation_id, new_fork_id, new_response_id


def test_new_ids_are_valid_in_the_store() -> None:
    assert is_response_id(new_response_id())
    assert is_conversation_id(new_conversation_id())
    assert new_response_id() != new_response_id()


@pytest.mark.parametrize("relative", ["resp_" + "0a" * 24, "conv_" + "1b" * 24])
def test_ids_made_from_a_relative_share_its_tree(relative: str) -> None:
    assert tree_tag(new_response_id(relative)) == tree_tag(relative)
    fork = new_fork_id(relative)
    assert is_conversation_id(fork)
    assert tree_tag(fork) == tree_tag(relative)


def test_a_fork_of_a_session_without_a_tree_has_none() -> None:
    assert tree_tag(new_fork_id("order-17")) is None
