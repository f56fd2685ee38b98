"""The lineage of a turn: where its prompt ends, which ids the model wrote behind it, and where both lie.

A turn that continues others gets their lineages with its history. Nothing depends on them but token ids and the choice
of an endpoint: a lineage that is missing, damaged or foreign never changes the text of a prompt. Between turns
it is the message `antiphon.translator.v1.Lineage`, as bytes that only translators read.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from google.protobuf.message import DecodeError

from antiphon_core.limits import LINEAGE_BYTES_MAX
from antiphon_core.rpc.message_types import message_type
from antiphon_core.rpc.methods import TRANSLATOR

ID = "i"  # the type code of ids in arrays: 32 bits, as engines are sent them


@dataclass(frozen=True, slots=True)
class Written:
    """Ids that a model wrote, and the place in a prompt where their text is expected to begin."""

    start: int
    ids: array[int]


@dataclass(frozen=True, slots=True)
class TurnLineage:
    """The lineage of one round, which most turns have one of; `protos/antiphon/translator/v1/translator.proto` explains
    each member. `prompt_chars` is 0 where the server rendered the prompt, and `cached_tokens` None where it does not
    report them."""

    fingerprint: int
    prompt_chars: int = 0
    prompt_digest: bytes = b""
    prompt_tokens: int = 0
    written_ids: array[int] = field(default_factory=partial(array, ID))
    cached_tokens: int | None = None
    expected_tokens: int = 0
    placement: bytes = b""
    at_ms: int = 0
    salt: bytes = b""
    lost_to: str = ""


_FILE = TRANSLATOR.methods["Generate"].response.strict.DESCRIPTOR.file
_Message = message_type(_FILE.message_types_by_name["Lineage"]).strict
_MEMBERS = tuple(member.name for member in fields(TurnLineage))
_ID_BYTES = 3  # of an id below 2^21, of which every vocabulary is


def encode(lineage: TurnLineage, earlier: bytes = b"") -> bytes:
    """The bytes of a lineage and of the rounds before it; `earlier` are those of the last of these. What does not fit
    into LINEAGE_BYTES_MAX is left out: the last ids that this round wrote, then the last ones of the earlier rounds."""
    message = _message_of(lineage)
    message.rounds.extend(_message_of(each).SerializeToString() for each in decode_rounds(earlier))
    if message.ByteSize() > LINEAGE_BYTES_MAX:
        del message.written_ids[:]
        while message.rounds and message.ByteSize() > LINEAGE_BYTES_MAX:
            del message.rounds[-1]
        kept = (LINEAGE_BYTES_MAX - message.ByteSize()) // _ID_BYTES - 1
        message.written_ids.extend(lineage.written_ids[: max(kept, 0)])
    return bytes(message.SerializeToString())


def decode_rounds(stored: bytes) -> Sequence[TurnLineage]:
    """The lineages in these bytes, of the rounds of one turn; none if there are none, or if they are damaged."""
    if not stored:
        return ()
    try:
        message = _Message.FromString(stored)
        return [*map(_lineage_of, map(_Message.FromString, message.rounds)), _lineage_of(message)]
    except (DecodeError, OverflowError):
        return ()


def _message_of(lineage: TurnLineage) -> Any:
    return _Message(**{name: getattr(lineage, name) for name in _MEMBERS})


def _lineage_of(message: Any) -> TurnLineage:
    """OverflowError: an id of the message has more than 32 bits."""
    found = {name: getattr(message, name) for name in _MEMBERS}
    found["written_ids"] = array(ID, message.written_ids)
    found["cached_tokens"] = message.cached_tokens if message.HasField("cached_tokens") else None
    return TurnLineage(**found)
