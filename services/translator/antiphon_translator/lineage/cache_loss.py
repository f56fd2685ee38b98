"""The causes for which tokens were lost that an engine should have had in its cache. Rules only, no I/O.

A cause is named where it is known, and is `unknown` otherwise. Tokens are lost where they were computed for an earlier
turn, the prompt repeats them, and the engine computed them again.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b

from antiphon_translator.placement import PlacementHint, endpoint_of

BLOCK_TOKENS = 32
"""Tokens of a block where the engine's number is not known: TensorRT-LLM's default."""
_DIGEST_BYTES = 8


class Loss(StrEnum):
    """A cause of lost tokens. The values are those of lineages, and of a label of a metric."""

    BLOCK = "block"
    """Fewer tokens than a block has: caches keep whole blocks, so that every turn loses some."""
    OTHER_REPLICA = "other_replica"
    """The prompt went to another endpoint than the longest of its beginnings."""
    RESTARTED = "restarted"
    """Nothing was left at an endpoint that should have had it."""
    EVICTED = "evicted"
    """The cache made room, and gave up the end of the beginning or all of it."""
    SALT = "salt"
    """The salt of the tenant has changed."""
    UNKNOWN = "unknown"


def of_parts(expected: int, cached: int, *, root_tokens: int, block_tokens: int = 0) -> Loss:
    """The cause by the tokens alone. `root_tokens` at the beginning are those of other conversations, too: a cache that
    has more than them has kept a part of this one, so the rest was evicted."""
    block = block_tokens or BLOCK_TOKENS
    if expected - cached <= block:
        return Loss.BLOCK
    return Loss.EVICTED if cached > root_tokens + block else Loss.UNKNOWN


def is_elsewhere(hint: PlacementHint, placement: str) -> bool:
    """Whether the beginning of a hint lies at another endpoint than `placement`."""
    return endpoint_of(hint.endpoint) != endpoint_of(placement)


def salt_digest(salt: str | None) -> bytes:
    """The digest of a salt, by which lineages tell two salts apart; empty for none."""
    return blake2b(salt.encode(), digest_size=_DIGEST_BYTES, person=b"antiphon-salt").digest() if salt else b""


def is_other_salt(before: bytes, now: bytes) -> bool:
    """Whether the salt of a prompt differs from that in an earlier lineage. A lineage without a salt does not tell:
    those of older releases have none."""
    return bool(before) and before != now
