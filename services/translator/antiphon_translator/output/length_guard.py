"""Stops the output of an engine that counts by itself, and does not stop.

A server is told how many tokens are wanted, and usually keeps to it. One that did not sent 45,000 deltas in 8 s. Here
the tokens are not seen, only messages and their text:

* Each message has one token at least. As long as there are no more messages than tokens were wanted, and the text is no
  longer than those usually are, nothing is looked at: that is every stream of a server that counts.
* Past that the tokenizer counts the text so far. Servers that send single characters pass: after each count, as many
  more messages are let through as there are tokens left.
* Of a model whose tokenizer is not here, a token has at most `TOKEN_MESSAGES_MAX` messages and `TOKEN_BYTES_MAX` bytes.

Whatever was asked for, an output ends at OUTPUT_BYTES_MAX: a longer one could not be stored.
"""

from __future__ import annotations

from collections.abc import Callable

from antiphon_core.limits import OUTPUT_BYTES_MAX
from antiphon_translator.generation import UNLIMITED

TOKEN_MESSAGES_MAX = 16
TOKEN_BYTES_MAX = 64
USUAL_TOKEN_BYTES = 16
SLACK_MESSAGES = 64
STEPS = 8
"""An output is counted again after an eighth of its limit at the soonest."""


class LengthGuard:
    """Of one generation. `count` counts the tokens of all text so far; None where the model's tokenizer is not here."""

    def __init__(self, max_tokens: int, count: Callable[[], int] | None) -> None:
        self._max_tokens = max_tokens
        self._count = count
        self._messages = 0
        self._bytes = 0
        self._messages_max, self._bytes_max = self._first_limits()

    def is_passed_by(self, size_bytes: int) -> bool:
        """Notes a message with so much text. Whether nothing more is wanted."""
        self._messages += 1
        self._bytes += size_bytes
        if self._messages <= self._messages_max and self._bytes <= self._bytes_max:
            return False
        return self._bytes > OUTPUT_BYTES_MAX or not self._has_more()

    def _first_limits(self) -> tuple[int, int]:
        if self._max_tokens == UNLIMITED:
            return UNLIMITED, OUTPUT_BYTES_MAX
        if self._count is None:
            most = TOKEN_MESSAGES_MAX * self._max_tokens + SLACK_MESSAGES
            return most, min(TOKEN_BYTES_MAX * most // TOKEN_MESSAGES_MAX, OUTPUT_BYTES_MAX)
        return self._max_tokens, min(USUAL_TOKEN_BYTES * self._max_tokens, OUTPUT_BYTES_MAX)

    def _has_more(self) -> bool:
        """Counts what there is, and sets the limits for the next time."""
        left = self._max_tokens - self._count() if self._count is not None else 0
        if left <= 0:
            return False
        more = max(left, self._max_tokens // STEPS)
        self._messages_max = self._messages + more
        self._bytes_max = min(self._bytes + USUAL_TOKEN_BYTES * more, OUTPUT_BYTES_MAX)
        return True
