"""Identifiers: their forms, and the sources of their digits.

A response id is `resp_` + 48 hex digits. The first 16 are its *tree tag*, which all responses that continue one another
share with the conversation that they were made in, and with the items that Antiphon names in them. A clustered store
routes by the tag, so one partition holds a whole tree (docs/adr/0004-tree-tag-in-ids.md). The other 32 digits (128
bits) are random.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from functools import lru_cache
from itertools import count
from typing import Protocol

TREE_TAG_DIGITS = 16
UNIQUE_DIGITS = 32

RESPONSE_ID = re.compile(rf"resp_[0-9a-f]{{{TREE_TAG_DIGITS + UNIQUE_DIGITS}}}")
SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
PROMPT_ID = re.compile(rf"pmpt_[0-9a-f]{{{TREE_TAG_DIGITS + UNIQUE_DIGITS}}}")
APPROVAL_ID = re.compile(rf"mcpr_([0-9a-f]{{{TREE_TAG_DIGITS}}})[0-9a-f]{{{UNIQUE_DIGITS}}}")
CONVERSATION_ID = re.compile(rf"conv_[0-9a-f]{{{TREE_TAG_DIGITS + UNIQUE_DIGITS}}}")
RESERVED_TENANT_PREFIX = "antiphon."
TENANT = re.compile(r"[!-~]{1,128}")  # printable ASCII: it travels in gRPC metadata
_ITEM_ID = re.compile(rf"[a-z_]+_([0-9a-f]{{{TREE_TAG_DIGITS}}})[0-9a-f]{{{UNIQUE_DIGITS}}}")
_TAGGED_ID = re.compile(rf"(?:resp|conv)_([0-9a-f]{{{TREE_TAG_DIGITS}}})[0-9a-f]{{{UNIQUE_DIGITS}}}")


class Ids(Protocol):
    """A source of hexadecimal digits."""

    def hex(self, digits: int) -> str:
        """Returns a unique number of this many lower-case hexadecimal digits."""


class RandomIds:
    """Identifiers that cannot be guessed, from the operating system's random numbers."""

    def hex(self, digits: int) -> str:
        return secrets.token_hex((digits + 1) // 2)[:digits]


class DerivedIds:
    """Identifiers that are derived from a seed: a process that repeats the work of another one makes the same ids."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._next = count(1)

    def hex(self, digits: int) -> str:
        """Returns the next digits of the sequence, at most 64."""
        digest = hashlib.sha256(f"{self._seed}/{next(self._next)}".encode()).hexdigest()
        return digest[:digits]


class SequentialIds:
    """Identifiers that count up, so that a test can name them beforehand."""

    def __init__(self) -> None:
        self._next = count(1)

    def hex(self, digits: int) -> str:
        return f"{next(self._next):0{digits}x}"[-digits:]


def new_response_id(ids: Ids, *, relative: str | None = None, tag: str | None = None) -> str:
    """A response id in the tree of `relative` (a response or conversation id), in the tree `tag`, or in a new tree."""
    if relative is not None:
        tag = tree_tag(relative)
    return f"resp_{tag or ids.hex(TREE_TAG_DIGITS)}{ids.hex(UNIQUE_DIGITS)}"


def new_conversation_id(ids: Ids) -> str:
    """A conversation id, in a new tree."""
    return f"conv_{ids.hex(TREE_TAG_DIGITS)}{ids.hex(UNIQUE_DIGITS)}"


def new_fork_id(ids: Ids, *, relative: str) -> str:
    """The id of a new session: a conversation id in the tree of `relative`, or `fork_…` if that names no tree."""
    tag = tree_tag(relative)
    prefix = f"conv_{tag}" if tag else f"fork_{ids.hex(TREE_TAG_DIGITS)}"
    return prefix + ids.hex(UNIQUE_DIGITS)


def new_item_id(ids: Ids, prefix: str, *, relative: str | None = None) -> str:
    """An item id such as `msg_` + 48 hex digits, with the tree tag of `relative` (a response or conversation id)."""
    tag = tree_tag(relative) if relative else None
    return f"{prefix}_{tag}{ids.hex(UNIQUE_DIGITS)}" if tag else f"{prefix}_{ids.hex(TREE_TAG_DIGITS + UNIQUE_DIGITS)}"


def new_request_id(ids: Ids) -> str:
    """A new value for `x-request-id`: `req_` + 32 hex digits."""
    return f"req_{ids.hex(UNIQUE_DIGITS)}"


@lru_cache(maxsize=1024)  # a turn asks for the tags of two ids seven times
def tree_tag(tagged_id: str) -> str | None:
    """The tree tag of a response or conversation id; None if it has the form of neither."""
    match = _TAGGED_ID.fullmatch(tagged_id)
    return match.group(1) if match else None


def item_tag(item_id: str) -> str | None:
    """The tree tag in an item id; None if it has another form. In an id that Antiphon did not make, the digits mean
    nothing."""
    match = _ITEM_ID.fullmatch(item_id)
    return match.group(1) if match else None


def session_tag(tenant: str, session_id: str) -> str:
    """The tree tag of a session's responses: the one in its id, or else one derived from tenant and id, so that
    concurrent first turns of a session are in one tree. A derived tag can be computed by anybody, which is harmless:
    the rest of a response's id is random."""
    return tree_tag(session_id) or _derived_tag(tenant, session_id)


@lru_cache(maxsize=1024)  # as `tree_tag`
def _derived_tag(tenant: str, session_id: str) -> str:
    return DerivedIds(f"session\n{tenant}\n{session_id}").hex(TREE_TAG_DIGITS)


def is_response_id(text: str) -> bool:
    return RESPONSE_ID.fullmatch(text) is not None


def is_approval_id(text: str) -> bool:
    """Whether this is the id of a request for an approval."""
    return APPROVAL_ID.fullmatch(text) is not None


def new_prompt_id(ids: Ids) -> str:
    return f"pmpt_{ids.hex(TREE_TAG_DIGITS + UNIQUE_DIGITS)}"


def is_prompt_id(text: str) -> bool:
    return PROMPT_ID.fullmatch(text) is not None


def is_conversation_id(text: str) -> bool:
    return CONVERSATION_ID.fullmatch(text) is not None


def is_session_id(text: str) -> bool:
    return SESSION_ID.fullmatch(text) is not None


def is_tenant(text: str) -> bool:
    return TENANT.fullmatch(text) is not None


def is_reserved_tenant(text: str) -> bool:
    """Whether a tenant is one of Antiphon's own, such as DISPATCH_TENANT. Only gateways may name it."""
    return text.lower().startswith(RESERVED_TENANT_PREFIX)
