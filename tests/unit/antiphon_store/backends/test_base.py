"""The protocols and those who implement them cannot drift apart."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from antiphon_store.backends.base import Backend, Durability
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.backends.postgres.backend import PostgresBackend
from antiphon_store.backends.redis.backend import RedisBackend
from antiphon_store.backends.sqlite.backend import SqliteBackend
from antiphon_store.wrappers.atoms import ATOMS, LIFE

DECLARED = {name: atom.declaration for name, atom in ATOMS.items()} | {name: getattr(Backend, name) for name in LIFE}


@pytest.mark.parametrize("implementation", [MemoryBackend, SqliteBackend, PostgresBackend, RedisBackend])
def test_implementations_have_the_signatures_of_the_protocols(implementation: type) -> None:
    for name, declaration in DECLARED.items():
        assert parameters(getattr(implementation, name)) == parameters(declaration), name


def parameters(method: Any) -> tuple[list[tuple[str, Any, Any]], Any]:
    """Names, kinds and defaults besides self, and what is returned."""
    signature = inspect.signature(method)
    _self, *rest = signature.parameters.values()
    return [(each.name, each.kind, each.default) for each in rest], signature.return_annotation


def test_durability_is_named_in_settings_by_its_value() -> None:
    assert [level.value for level in Durability] == ["memory", "process", "disk", "quorum"]
