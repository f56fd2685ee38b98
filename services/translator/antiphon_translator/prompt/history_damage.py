"""Damage of a turn's history, told apart from mistakes of its request.

The edge checks the types of all items before the store gets them. An item of the history with a wrong type was changed
in the database, so its caller cannot mend it, and must not get a 400.
"""

from __future__ import annotations

from antiphon_core import damage
from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.translator import Turn

HISTORY = "history"
MISTYPED = "invalid_type"


def raise_if_damaged(turn: Turn, error: InvalidRequest) -> None:
    """Reports an InvalidRequest about the types of the history's items, or about its JSON, as damage.

    Raises:
        DataDamaged: the history is no list of items.
    """
    if _is_damage(error):
        raise damage.report(f"the history of '{turn.response_id}'", f"{error.field} cannot be read") from error


def _is_damage(error: InvalidRequest) -> bool:
    field = error.field or ""
    return field == HISTORY or (field.startswith(f"{HISTORY}[") and error.code == MISTYPED)
