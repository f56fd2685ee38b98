"""Ends the output of an engine that exceeds its token limit.

A server gets the limit in the request, and usually keeps to it. One that did not sent 45,000 deltas in 8 s. Engines of
text and chat send no token ids, so the guard counts their messages (chunks) and the bytes of their text:

* Each message has one token at least. While there are no more messages than the limit has tokens, and the text has no
  more bytes than so many tokens usually have, nothing is checked. A server that keeps to the limit stays below that.
* Beyond that the tokenizer counts the text so far, one piece with each further message, because the guard runs on the
  event loop. For servers that send single characters, each whole count permits as many further messages as there are
  tokens left.
* Without the model's tokenizer, a token may have up to `TOKEN_MESSAGES_MAX` messages and `TOKEN_BYTES_MAX` bytes.

Even without a limit, an output ends at OUTPUT_BYTES_MAX: a longer one could not be stored.
"""

from __future__ import annotations

from antiphon_core.limits import OUTPUT_BYTES_MAX
from antiphon_translator.generation import UNLIMITED
from antiphon_translator.output.written_text import WrittenText

TOKEN_MESSAGES_MAX = 16
TOKEN_BYTES_MAX = 64
USUAL_TOKEN_BYTES = 16
SLACK_MESSAGES = 64
STEPS = 8
"""Between two counts at least an eighth of the limit is let through, so that counting stays cheap."""


class LengthGuard:
    """The guard of one generation. `written` is all its text so far; None without the model's tokenizer."""

    def __init__(self, max_tokens: int, written: WrittenText | None) -> None:
        self._max_tokens = max_tokens
        self._written = written
        self._messages = 0
        self._bytes = 0
        self._messages_max, self._bytes_max = self._first_limits()

    def is_passed_by(self, size_bytes: int) -> bool:
        """Counts a message with so much text. Returns whether the output is over the limit."""
        self._messages += 1
        self._bytes += size_bytes
        if self._messages <= self._messages_max and self._bytes <= self._bytes_max:
            return False
        return self._bytes > OUTPUT_BYTES_MAX or not self._has_more()

    def _first_limits(self) -> tuple[int, int]:
        if self._max_tokens == UNLIMITED:
            return UNLIMITED, OUTPUT_BYTES_MAX
        if self._written is None:
            most = TOKEN_MESSAGES_MAX * self._max_tokens + SLACK_MESSAGES
            return most, min(TOKEN_BYTES_MAX * most // TOKEN_MESSAGES_MAX, OUTPUT_BYTES_MAX)
        return self._max_tokens, min(USUAL_TOKEN_BYTES * self._max_tokens, OUTPUT_BYTES_MAX)

    def _has_more(self) -> bool:
        """Whether the output may go on, by the tokenizer's count. Sets the limits up to the next count, or leaves them
        as they are while pieces of the text are not counted."""
        if self._written is None:
            return False
        if not self._written.count_piece():
            return self._written.tokens_least < self._max_tokens
        left = self._max_tokens - sum(self._written.tokens())
        if left <= 0:
            return False
        more = max(left, self._max_tokens // STEPS)
        self._messages_max = self._messages + more
        self._bytes_max = min(self._bytes + USUAL_TOKEN_BYTES * more, OUTPUT_BYTES_MAX)
        return True
