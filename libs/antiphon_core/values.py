"""Values that are made once per token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """A dataclass that the type checker takes for a frozen one. At run time it is none: the `__init__` of a frozen
    dataclass takes three times as long."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
