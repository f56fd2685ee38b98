"""Counts the answers of a gRPC server until they are sent, with a limit of bytes.

A caller may ask without reading the answers: flow control then keeps each answer in this process, in whole. 200 calls
for one record of 16 MB, over one connection with a window of 0, held 7.3 GB of a store. So an answer counts from its
encoding until it is passed on to the socket, and a call whose answer finds no room is rejected
(docs/adr/0159-answers-count-until-they-are-sent.md).

Answers up to `UNCOUNTED_BYTES_MAX` do not count: the number of a caller's calls limits them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from antiphon_core.rpc.intake import CallBudget, IntakeLimits
from antiphon_http2.server.call import ServerCall

UNCOUNTED_BYTES_MAX = 64 * 2**10  # a window of HTTP/2, which the caller has room for in most cases
_UNREAD = "The server holds too many answers that were not read yet. Read them, and try again."


class Delivery:
    """The answers of one server that are not sent yet. For one event loop."""

    def __init__(self, limits: IntakeLimits) -> None:
        self.budget = CallBudget(limits, counted="answer_bytes", message=_UNREAD)

    def count(self, call: ServerCall, caller: str, answer: bytes) -> bytes:
        """Counts the answer of a unary call until the call is over, and returns it. Unavailable: there is no room."""
        if len(answer) > UNCOUNTED_BYTES_MAX:
            size = len(answer)
            self.budget.take(caller, size)
            call.add_done_callback(partial(self.budget.give_back, caller, size))
        return answer

    @contextmanager
    def count_answer(self, caller: str, answer: bytes) -> Iterator[bytes]:
        """Counts one answer of a stream while the context is open. Unavailable: there is no room."""
        size = len(answer) if len(answer) > UNCOUNTED_BYTES_MAX else 0
        if size:
            self.budget.take(caller, size)
        try:
            yield answer
        finally:
            if size:
                self.budget.give_back(caller, size)
