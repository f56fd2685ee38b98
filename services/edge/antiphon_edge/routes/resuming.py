"""`x-antiphon-resume`: the header of a streamed answer that says how to go on when the stream breaks off.

A background response is followed at another edge, behind the last event that came: the value is the path, with
`{sequence_number}` in the place of that event's number. A turn under an idempotency key is sent again from its
beginning, with the numbers that its events had, to the same request: the value is `idempotency-key`. Any other turn
ends with its edge, and its answer has no such header.
"""

from __future__ import annotations

HEADER = "x-antiphon-resume"
BY_KEY = {HEADER: "idempotency-key"}


def behind_last(response_id: str) -> dict[str, str]:
    """The header of a stream that follows a response."""
    return {HEADER: f"/v1/responses/{response_id}?stream=true&starting_after={{sequence_number}}"}
