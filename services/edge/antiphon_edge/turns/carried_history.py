"""History that comes with a request, or from the connection it came by: the store has none of it.

A turn that is stored takes such history into its input, so that whoever continues it later, anywhere, has all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, join_arrays, loads


def require_no_session(carried: bytes | None, session_id: str | None) -> None:
    """InvalidRequest: a session has a history of its own."""
    if carried is not None and session_id is not None:
        raise InvalidRequest(
            "A turn in a conversation or session continues what stands there, and no other response.",
            code="mutually_exclusive_parameters",
        )


def placed(
    carried: bytes | None, stored: bytes, given: str | Sequence[Object], *, keep: bool
) -> tuple[bytes, str | Sequence[Object]]:
    """(history, input) of a turn: what was carried goes before what the store had, or, if the turn is kept, into its
    input."""
    if carried is None:
        return stored, given
    if not keep:
        return join_arrays([carried, stored]), given
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    return stored, [*loads(carried), *given]
