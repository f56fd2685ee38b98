"""Ids that the caller chooses, so that a repeated call has its effect once.

A response id is `resp_` + 16 hex digits that all responses of one tree share + 32 random hex digits. A conversation id
is `conv_` and the same digits.
"""

from __future__ import annotations

import re
import secrets

_TREE = re.compile(r"(?:resp|conv)_([0-9a-f]{16})[0-9a-f]{32}")


def new_response_id(relative: str = "") -> str:
    """Returns an id in the tree of `relative`, the id of a response or conversation, or in a new tree."""
    return f"resp_{_tree_of(relative) or secrets.token_hex(8)}{secrets.token_hex(16)}"


def new_conversation_id() -> str:
    """Returns the id of a conversation with a tree of its own."""
    return f"conv_{secrets.token_hex(24)}"


def new_fork_id(source: str) -> str:
    """Returns the id of a session in the tree of `source`; if `source` names no tree, the id names none either."""
    tree = _tree_of(source)
    return f"conv_{tree}{secrets.token_hex(16)}" if tree else f"fork_{secrets.token_hex(24)}"


def _tree_of(relative: str) -> str:
    """The digits that name the tree, or nothing."""
    match = _TREE.fullmatch(relative)
    return match[1] if match else ""
