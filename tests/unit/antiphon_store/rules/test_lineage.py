"""Lineage's rules. Which field is named for what: `antiphon_store.testing.lineage_arguments`."""

from __future__ import annotations

from antiphon_core.ids import SequentialIds, is_session_id, tree_tag
from antiphon_core.ports.lineage import ForkSource
from antiphon_store.rules import lineage as rules
from antiphon_store.testing.subject import draft

RESPONSE = draft().id


def test_a_chosen_session_is_in_the_tree_that_the_source_names() -> None:
    conversation = "conv_" + "a" * 48
    for source, tag in (
        (ForkSource(up_to_response_id=RESPONSE), tree_tag(RESPONSE)),
        (ForkSource("free", RESPONSE), tree_tag(RESPONSE)),
        (ForkSource(conversation), "a" * 16),
    ):
        chosen = rules.chosen_session_id(source, SequentialIds())
        assert chosen.startswith("conv_")
        assert tree_tag(chosen) == tag


def test_a_chosen_session_has_no_tree_where_the_source_names_none() -> None:
    chosen = rules.chosen_session_id(ForkSource("free"), SequentialIds())
    assert is_session_id(chosen)
    assert tree_tag(chosen) is None
