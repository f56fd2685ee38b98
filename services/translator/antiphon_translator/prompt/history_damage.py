"""Damage of a turn's history, told apart from mistakes of its request.

The edge checks the types of all items before the store gets them. An item of the history with a wrong type was changed
in the database, so its caller cannot mend it, and must not get a 400.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from antiphon_core import damage
from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.translator import Turn

HISTORY = "history"
MISTYPED = "invalid_type"


@contextmanager
def told_apart(turn: Turn) -> Iterator[None]:
    """Reports an InvalidRequest about the types of the history's items, or about its JSON, as damage.

    Raises:
        DataDamaged: the history is no list of items.
    """
    try:
        yield
    except InvalidRequest as error:
        if not _is_damage(error):
            raise
        raise damage.report(f"the history of '{turn.response_id}'", f"{error.field} cannot be read") from error


def _is_damage(error: InvalidRequest) -> bool:
    field = error.field or ""
    return field == HISTORY or (field.startswith(f"{HISTORY}[") and error.code == MISTYPED)
