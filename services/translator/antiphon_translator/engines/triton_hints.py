"""Hints for operators about models that take text where a model of token ids could serve the same weights."""

from __future__ import annotations

import logging
from functools import cache

log = logging.getLogger(__name__)

PAGE = "docs/howto/triton-token-models.md"


@cache
def note_text_model(model: str, kind: str) -> None:
    """Logs a warning, once for each model of the process. `kind` says whose model it is."""
    log.warning(
        "the Triton model '%s' is the text-level model of %s: no token ids, so no exact usage and no continuation of "
        "turns after a crash; antiphon triton-models writes a token-level model for the same container: %s",
        model,
        kind,
        PAGE,
    )
