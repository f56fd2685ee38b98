"""Isolation of tenants in the caches of prompts: the engine's KV cache, and the cache of encoded prompts here.

A profile with `kv_isolation = "tenant"` isolates them. The edge sends a salt with each turn, which says of its tenant
only that it is the same one as before. Caches share nothing between two salts.
"""

from __future__ import annotations

import hmac
import logging
from base64 import urlsafe_b64encode

from antiphon_core.errors import EngineMisconfigured
from antiphon_core.ports.translator import Turn

log = logging.getLogger(__name__)

NEEDS = (
    "a token-level Triton model of 'antiphon triton-models' that has the input cache_salt, or vLLM's route for token "
    'ids (engine = "vllm_tokens")'
)
ALTERNATIVES = "Otherwise give each tenant endpoints of its own, or turn the reuse of the KV cache off in the engine."


def salt_of(turn: Turn, model: str) -> str:
    """The salt of a turn in the caches of a model. EngineMisconfigured: the edge sent none."""
    if not turn.cache_salt:
        raise EngineMisconfigured(
            f"The model '{model}' isolates tenants, and the turn came without a salt: set cache_salt_keys_file of all "
            "edges and workers."
        )
    return urlsafe_b64encode(hmac.digest(turn.cache_salt.encode(), model.encode(), "sha256")).decode().rstrip("=")


class SharedCaches:
    """Warns once when a second tenant uses a model whose caches tenants share."""

    def __init__(self) -> None:
        self._first: str | None = None
        self._has_warned = False

    def note(self, tenant: str, model: str) -> None:
        if self._first is None:
            self._first = tenant
        elif tenant != self._first and not self._has_warned:
            self._has_warned = True
            log.warning(
                "several tenants use the model '%s' and share its KV cache: the time that a prompt takes can tell one "
                'what another has sent; kv_isolation = "tenant" in its profile keeps them apart',
                model,
            )
