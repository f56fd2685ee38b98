"""Events of the calls of a connection."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from antiphon_http2.server.stream import ServerStream


class Happening(Enum):
    BEGUN = auto()  # a call; its metadata have arrived
    RECEIVED = auto()  # what the owner of a call waits for: a message, the end of the requests, or an error in them
    SENT = auto()  # all answers of a call so far; its owner waits for that
    ENDED = auto()  # the trailers of a call are written
    CANCELLED = auto()  # a call, by the client or with the connection


class Event(NamedTuple):
    kind: Happening
    stream: ServerStream
