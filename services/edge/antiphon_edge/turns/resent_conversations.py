"""Hashes over the items of a conversation, which find the turn that a request continues without naming it.

Many clients resend the whole conversation with every request: chat completions, Codex, Open WebUI, LibreChat. Each turn
without a predecessor keeps its lineage under the hash of its whole conversation, its output included. A request that
resends that conversation has the same hash behind the last item of the assistant.

A hash covers the meaning of items, not their form, because clients rewrite what they resend: it leaves out ids,
statuses and annotations, reasoning (which some clients drop), system messages (which change while a conversation
stays), empty messages, and the order in which calls and their results are interleaved. A wrong match does no harm: a
translator uses a lineage only where the text of the prompt agrees.

No item fails a hash. Items of extensions may have any JSON in any member, and a hint must never cost a turn its answer.
"""

from __future__ import annotations

import hmac
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from antiphon_core.jsons import Object, canonical, loads
from antiphon_core.limits import LINEAGE_KEYS_ITEMS_MAX
from antiphon_core.ports.store import LINEAGE_KEY_BYTES

_PURPOSE = b"antiphon-resent1\0"
_NO_ITEMS = bytes(LINEAGE_KEY_BYTES)
_CALL, _RESULT = "call", "result"
_FROM_MODEL = frozenset({"assistant", _CALL})
_UNSEEN_ROLES = frozenset({"system", "developer"})
_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
"""The member with the text of a part, by the type of the part."""
_OWN_OF_ITEM = frozenset({"id", "status", "created_by"})
"""Members of items that clients drop or make anew."""


class _State:
    """The hash of a conversation: of its messages and the calls between them so far, then of the calls behind the last
    message and of their results, each in their order."""

    __slots__ = ("_calls", "_messages", "_results")

    def __init__(self, encoded: bytes) -> None:
        size = LINEAGE_KEY_BYTES
        self._messages, self._calls, self._results = encoded[:size], encoded[size : 2 * size], encoded[2 * size :]

    def encode(self) -> bytes:
        return self._messages + self._calls + self._results

    @property
    def key(self) -> bytes:
        return _hash(self.encode(), ())

    def add(self, kind: str, texts: Sequence[str]) -> None:
        if kind == _CALL:
            self._calls = _hash(self._calls, texts)
        elif kind == _RESULT:
            self._results = _hash(self._results, texts)
        else:
            self._messages = _hash(self.encode(), (kind, *texts))
            self._calls = self._results = _NO_ITEMS


@dataclass(frozen=True, slots=True)
class ResentConversation:
    """The input of a turn without a predecessor. `state` is the hash state behind it, and `keys` are those of the
    beginnings that earlier turns may have ended with, the longest first. Empty for all other turns."""

    state: bytes = b""
    keys: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, tenant: str, model: str, items: Sequence[Mapping[str, Any]]) -> ResentConversation:
        """Reads the items of an input. Tenants and models have different keys for the same items."""
        start = hmac.digest(tenant.encode(), _PURPOSE + model.encode("utf-8", "surrogatepass"), "sha256")
        state, is_answer = _State(start[:LINEAGE_KEY_BYTES] + 2 * _NO_ITEMS), False
        keys: deque[bytes] = deque(maxlen=LINEAGE_KEYS_ITEMS_MAX)
        for item in items:
            kind, texts = _meaning_of(item)
            if not kind:
                continue
            is_from_model = kind in _FROM_MODEL
            if is_answer and not is_from_model:
                keys.appendleft(state.key)
            state.add(kind, texts)
            is_answer = is_from_model
        return cls(state.encode(), tuple(keys))


NOT_RESENT = ResentConversation()


def key_behind(state: bytes, output_items: bytes) -> bytes:
    """The key of a conversation that goes on with these items, a JSON array; empty if the client has nothing of them to
    resend."""
    behind = _State(state)
    for item in loads(output_items):
        kind, texts = _meaning_of(item)
        if kind:
            behind.add(kind, texts)
    return behind.key if behind.encode() != state else b""


def _meaning_of(item: Mapping[str, Any]) -> tuple[str, Sequence[str]]:
    """The kind of an item (`call`, `result`, or the role of a message) and its texts; no kind for one that is left
    out."""
    item_type = item.get("type") or "message"
    if not isinstance(item_type, str):
        return "", ()
    if item_type == "message":
        role, texts = str(item.get("role")), _texts_of(item.get("content"))
        return ("", ()) if role in _UNSEEN_ROLES or not texts else (role, texts)
    if item_type == "function_call":
        return _CALL, (str(item.get("name")), _arguments(item.get("arguments")))
    if item_type.endswith("_output"):
        return _RESULT, _texts_of(item.get("output"))
    if item_type.endswith("_call") and "call_id" in item:
        return _CALL, (item_type, _canonical({name: item[name] for name in item.keys() - _OWN_OF_ITEM - {"call_id"}}))
    return "", ()


def _texts_of(content: Any) -> Sequence[str]:
    """The content of a message or result: its text joined, then everything else in it. Empty content has no texts."""
    if isinstance(content, str):
        return (content,) if content else ()
    if not isinstance(content, list):
        return () if content is None else (_canonical(content),)
    texts, others = [], []
    for part in content:
        part_type = part.get("type") if isinstance(part, dict) else None
        member = _TEXTS.get(part_type) if isinstance(part_type, str) else None
        if member is None:
            others.append(_other_part(part))
        elif text := part.get(member):
            texts.append(str(text))
    return ("".join(texts), *others) if texts or others else ()


def _other_part(part: Any) -> str:
    """A part that is no text. Clients add or leave out its level of detail."""
    if not isinstance(part, dict):
        return _canonical(part)
    kept: Object = {name: value for name, value in part.items() if value is not None and name != "detail"}
    image = kept.get("image_url")
    return image if isinstance(image, str) else _canonical(kept)


def _arguments(text: Any) -> str:
    """The arguments of a call. Clients that parse them may write them in another form."""
    try:
        return _canonical(loads(text))
    except ValueError:
        return str(text)


def _canonical(value: Any) -> str:
    """A value as text; empty for one that JSON cannot have, or that is nested too deep to write."""
    try:
        return canonical(value).decode()
    except TypeError:
        return ""


def _hash(before: bytes, texts: Sequence[str]) -> bytes:
    digest = blake2b(before, digest_size=LINEAGE_KEY_BYTES)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b" % (len(data), data))
    return digest.digest()
