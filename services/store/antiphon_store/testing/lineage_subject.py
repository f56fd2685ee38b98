"""Helpers of the lineage suites."""

from __future__ import annotations

from typing import cast

from antiphon_core.ports.lineage import LineageStore
from antiphon_store.testing.subject import Subject


def lineage(subject: Subject) -> LineageStore:
    """The store under test by its other port; local and remote stores implement both."""
    return cast("LineageStore", subject.store)


def peer_lineage(subject: Subject) -> LineageStore:
    return cast("LineageStore", subject.peer)
