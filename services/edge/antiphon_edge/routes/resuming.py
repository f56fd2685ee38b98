"""`x-antiphon-resume`: the header of a stream that tells the client how to resume after a lost connection.

A stream of a background response can be resumed at any edge. The value is the path to GET; replace
`{sequence_number}` by the number of the last event that arrived. A turn with an idempotency key is replayed from its
first event, with the same numbers, when the client repeats the request: the value is `idempotency-key`. Any other turn
ends with its edge, and its answer has no such header.
"""

from __future__ import annotations

HEADER = "x-antiphon-resume"
BY_KEY = {HEADER: "idempotency-key"}


def after_last_event(response_id: str) -> dict[str, str]:
    """The header of a stream that can be resumed after any of its events."""
    return {HEADER: f"/v1/responses/{response_id}?stream=true&starting_after={{sequence_number}}"}
