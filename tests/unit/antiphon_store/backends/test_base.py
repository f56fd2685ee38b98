"""The protocols and those who implement them cannot drift apart."""

from __future__ import annotations

import inspect
from typing import Any

from antiphon_store.backends.base import Backend, Durability
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.engine.facade import RowEngine
from antiphon_store.testing.atoms import ATOMS, LIFE

DECLARED = {name: atom.declaration for name, atom in ATOMS.items()} | {name: getattr(Backend, name) for name in LIFE}


def test_the_engine_has_the_signatures_of_the_protocols() -> None:
    engine = RowEngine(MemoryRows())
    for name, declaration in DECLARED.items():
        assert bound(getattr(engine, name)) == parameters(declaration), name


def bound(method: Any) -> tuple[list[tuple[str, Any, Any]], Any]:
    signature = inspect.signature(method)
    return [(each.name, each.kind, each.default) for each in signature.parameters.values()], signature.return_annotation


def parameters(method: Any) -> tuple[list[tuple[str, Any, Any]], Any]:
    """Names, kinds and defaults besides self, and what is returned."""
    signature = inspect.signature(method)
    _self, *rest = signature.parameters.values()
    return [(each.name, each.kind, each.default) for each in rest], signature.return_annotation


def test_durability_is_named_in_settings_by_its_value() -> None:
    assert [level.value for level in Durability] == ["memory", "process", "disk", "quorum"]
