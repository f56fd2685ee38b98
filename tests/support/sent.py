"""A message as the other side of an RPC gets it."""

from __future__ import annotations

from typing import Any

from antiphon_core.rpc.codec import decode, encode
from antiphon_core.rpc.message_types import message_type


def sent(message: Any) -> Any:
    """`message`, encoded and decoded."""
    kind = message_type(type(message).DESCRIPTOR)
    return decode(kind, encode(kind, message))
