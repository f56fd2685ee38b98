"""Checks of arguments about lineage, in the service and in the client. Pure, as in `antiphon_store.rules`."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core import limits
from antiphon_core.ids import TREE_TAG_DIGITS, UNIQUE_DIGITS, Ids, tree_tag
from antiphon_core.ports.lineage import ForkSource
from antiphon_store import rules


def check_ids(ids: Sequence[str]) -> None:
    """The ids of a BatchGet."""
    rules.check_range(len(ids), 1, limits.LOOKUP_ITEMS_MAX, "ids")
    for index, response_id in enumerate(ids):
        rules.check_response_id(response_id, f"ids[{index}]")


def check_item_ids(item_ids: Sequence[str]) -> None:
    rules.check_range(len(item_ids), 1, limits.LOOKUP_ITEMS_MAX, "item_ids")
    for index, item_id in enumerate(item_ids):
        if not rules.is_text(item_id):
            raise rules.invalid(f"item_ids[{index}]", f"'item_ids[{index}]' must be the id of an item.")


def check_limit(limit: int) -> None:
    rules.check_range(limit, 1, limits.LIST_ITEMS_MAX, "limit")


def check_max_nodes(max_nodes: int) -> None:
    rules.check_range(max_nodes, 1, limits.TREE_NODES_MAX, "max_nodes")


def check_cursor(cursor: str | None) -> None:
    """Checks that the wire can carry a cursor. `cursors.decode` checks that it belongs to the question."""
    if cursor is not None and not rules.is_text(cursor):
        raise rules.invalid("cursor", "'cursor' must be a 'next_cursor' of an earlier page.")


def check_list(tenant: str, response_id: str, cursor: str | None, limit: int) -> None:
    """Checks the arguments that every list around one response has."""
    rules.check_tenant(tenant)
    rules.check_response_id(response_id, "id")
    check_cursor(cursor)
    check_limit(limit)


def check_fork(source: ForkSource, new_session_id: str | None) -> None:
    if source.session_id is None and source.up_to_response_id is None:
        raise rules.invalid("session_id", "Name what to fork: 'session_id', 'up_to_response_id' or both.")
    if source.session_id is not None:
        rules.check_session_id(source.session_id, "session_id")
    if source.up_to_response_id is not None:
        rules.check_response_id(source.up_to_response_id, "up_to_response_id")
    if new_session_id is not None:
        rules.check_session_id(new_session_id, "new_session_id")


def chosen_session_id(source: ForkSource, ids: Ids) -> str:
    """A new session's id: a conversation's in the tree of the source. A session whose name says nothing of its tree is
    forked into one whose name does not either."""
    tag = tree_tag(source.up_to_response_id or source.session_id or "")
    prefix = f"conv_{tag}" if tag else f"fork_{ids.hex(TREE_TAG_DIGITS)}"
    return prefix + ids.hex(UNIQUE_DIGITS)
