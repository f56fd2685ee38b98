"""Passes a message through encoding and decoding, as an RPC does."""

from __future__ import annotations

from typing import Any

from antiphon_core.rpc.codec import decode, encode
from antiphon_core.rpc.message_types import message_type


def sent(message: Any) -> Any:
    """Returns `message` after encoding and decoding."""
    kind = message_type(type(message).DESCRIPTOR)
    return decode(kind, encode(kind, message))
