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
from antiphon_core.telemetry import remedies

log = logging.getLogger(__name__)


def salt_of(turn: Turn, model: str) -> str:
    """The salt of a turn in the caches of a model. EngineMisconfigured: the edge sent none."""
    if not turn.cache_salt:
        raise misconfigured_error(model, "the turn came without a salt")
    return urlsafe_b64encode(hmac.digest(turn.cache_salt.encode(), model.encode(), "sha256")).decode().rstrip("=")


def misconfigured_error(model: str, finding: str) -> EngineMisconfigured:
    """The error of a model whose tenants cannot be isolated. Logs the finding, for operators."""
    log.error("model '%s' isolates its tenants, and %s", model, finding, extra=remedies.ISOLATE_TENANTS)
    return EngineMisconfigured(
        f"The model '{model}' isolates its tenants, and {finding}. Only an operator of this service can correct that."
    )


class SharedCaches:
    """Warns once when a second tenant uses a model whose caches tenants share."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        """The first tenant of each model."""
        self._has_warned = False

    def note(self, tenant: str, model: str) -> None:
        if self._first.setdefault(model, tenant) != tenant and not self._has_warned:
            self._has_warned = True
            log.warning(
                "several tenants use the model '%s' and share its KV cache: the time that a prompt takes can tell one "
                'what another has sent; kv_isolation = "tenant" in its profile keeps them apart',
                model,
            )
