"""The type of decisions: a function of a view that returns a function of the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from antiphon_store.rows.view import View

_Answer = TypeVar("_Answer")

Finish = Callable[[Sequence[Any]], _Answer]
"""From the answers to a program's reads, in their order, to what the operation answers."""

Decision = Callable[[View], Finish[_Answer]]
"""Says what changes and what is read, or raises. It may run several times."""
