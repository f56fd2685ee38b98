"""Placements: where the KV cache of a prompt lies, as records keep it.

A placement is a text that nobody but a translator reads: the digest of an endpoint's name, and behind it what a fleet's
router returned as "where" for the request, if anything. Records keep no address of a server. Translators share no
memory: each makes the same digests of the names in its own profile. A translator whose profile has another name for the
server finds no such endpoint, and places the request as the first one of a conversation.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

PLACEMENT_CHARS_MAX = 256
"""Characters of a placement; what a router returns is dropped when it is longer. Tokens of llm-d's and worker ids of
Dynamo's and SMG's routers have fewer than 100."""
_SEPARATOR = "@"
_DIGEST_BYTES = 6
"""Two of 1,000 endpoints share a digest with a chance of 1 in 5 * 10**8."""


@dataclass(frozen=True, slots=True)
class PlacementHint:
    """A beginning of the prompt that an earlier generation left in a KV cache.

    `endpoint` is the placement of that generation, as its chunks had it. `tokens` is the length of the common beginning
    of both prompts, with the output of the earlier generation where the prompt repeats it. `at_ms` is when the earlier
    generation ended, in Unix milliseconds."""

    endpoint: str
    tokens: int
    at_ms: int


def placement_of(endpoint: str, routed_to: str = "") -> str:
    """The placement of a generation at an endpoint, whose router says `routed_to` about it."""
    digest = blake2b(endpoint.encode(), digest_size=_DIGEST_BYTES, person=b"antiphon-place").hexdigest()
    placement = f"{digest}{_SEPARATOR}{routed_to}" if routed_to else digest
    return placement if len(placement) <= PLACEMENT_CHARS_MAX else digest


def endpoint_of(placement: str) -> str:
    """The part of a placement that says which endpoint: what `placement_of` returns for it."""
    return placement.partition(_SEPARATOR)[0]


def routed_to(placement: str) -> str:
    """The answer of the endpoint's router; empty if it gave none."""
    return placement.partition(_SEPARATOR)[2]


@dataclass(frozen=True, slots=True)
class RootPrefix:
    """The beginning of a prompt that other conversations share: the system message. `key` is a digest of its text."""

    key: str
    tokens: int
