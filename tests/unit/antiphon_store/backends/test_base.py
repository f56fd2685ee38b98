"""The protocol and those who implement it cannot drift apart."""

from __future__ import annotations

import inspect

import pytest

from antiphon_store.backends.base import Backend, Durability
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.backends.sqlite.backend import SqliteBackend
from antiphon_store.testing.lifecycle import ATOMS
from antiphon_store.wrappers.faulty import FaultyBackend

METHODS = [name for name, value in vars(Backend).items() if inspect.iscoroutinefunction(value)]


@pytest.mark.parametrize("implementation", [MemoryBackend, SqliteBackend, FaultyBackend])
def test_implementations_have_the_signatures_of_the_protocol(implementation: type) -> None:
    for name in METHODS:
        assert inspect.signature(getattr(implementation, name)) == inspect.signature(getattr(Backend, name)), name


def test_the_lifecycle_suite_knows_every_atom() -> None:
    assert {atom.partition(" ")[0] for atom in ATOMS} == set(METHODS) - {"open", "close"}


def test_durability_is_named_in_settings_by_its_value() -> None:
    assert [level.value for level in Durability] == ["memory", "process", "disk", "quorum"]
