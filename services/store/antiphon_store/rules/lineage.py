"""Validation of arguments about lineage."""

from __future__ import annotations

from antiphon_core.ids import TREE_TAG_DIGITS, UNIQUE_DIGITS, Ids, tree_tag
from antiphon_core.ports.lineage import ForkSource
from antiphon_store.rules.common import check_response_id, check_session_id, invalid, is_text


def check_cursor(cursor: str, field: str) -> None:
    """Checks that the wire can carry a cursor. `cursors.decode` checks that it belongs to the question."""
    if not is_text(cursor):
        raise invalid(field, f"'{field}' must be a 'next_cursor' of an earlier page.")


def check_fork_source(source: ForkSource, _field: str) -> None:
    if source.session_id is None and source.up_to_response_id is None:
        raise invalid("session_id", "Name what to fork: 'session_id', 'up_to_response_id' or both.")
    if source.session_id is not None:
        check_session_id(source.session_id, "session_id")
    if source.up_to_response_id is not None:
        check_response_id(source.up_to_response_id, "up_to_response_id")


def chosen_session_id(source: ForkSource, ids: Ids) -> str:
    """The id of a new session: a conversation id in the tree of the source, or `fork_…` if the source's id names no
    tree."""
    tag = tree_tag(source.up_to_response_id or source.session_id or "")
    prefix = f"conv_{tag}" if tag else f"fork_{ids.hex(TREE_TAG_DIGITS)}"
    return prefix + ids.hex(UNIQUE_DIGITS)
