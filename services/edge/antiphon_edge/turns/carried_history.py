"""Carried history: items that come with a request, or from its WebSocket connection, and are not in the store.

A turn that is stored takes carried history into its input, so that a turn that continues it finds all of it in the
store.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.jsons import Object, join_arrays, loads


def history_and_input(
    carried: bytes | None, stored: bytes, given: str | Sequence[Object], *, keep: bool
) -> tuple[bytes, str | Sequence[Object]]:
    """Returns (history, input) of a turn. Carried items go before the stored history, or, if the turn itself will be
    stored (`keep`), before its input."""
    if carried is None:
        return stored, given
    if not keep:
        return join_arrays([carried, stored]), given
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    return stored, [*loads(carried), *given]
