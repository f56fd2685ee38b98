"""Runs decisions, and retries each with the rows whose guards failed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Collection
from functools import partial
from typing import TypeVar

from antiphon_core import offload
from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.local import LocalBackend
from antiphon_store.rows.model import Applied, Get, Partition, Payload, Program, Ref, Refused, Row, size_of
from antiphon_store.rows.view import NOTHING_REFUSED, Decision, UnknownRow, View, require_whole_chains

ATTEMPTS_MAX = 100  # an attempt fails only when another writer succeeded
QUICK_ATTEMPTS = 3  # before later attempts there is a random pause
PAUSE_S_MAX = 0.01

_Answer = TypeVar("_Answer")


class DecisionRunner:
    """Runs decisions on the rows of a backend. `payload`: the payloads of the rows that decisions see. A decision that
    sees large ones runs in a thread, because it may parse them."""

    def __init__(self, backend: RowBackend, *, payload: Payload = Payload.ALL) -> None:
        self._backend = backend
        self._payload = payload
        self._local = backend if isinstance(backend, LocalBackend) else None

    def run(self, partition: Partition, decision: Decision[_Answer], *, only_reads: bool = False) -> Awaitable[_Answer]:
        """Runs a decision and returns its result. `only_reads`: the decision changes nothing.
        StoreUnavailable: every attempt conflicted with another writer."""
        if self._local is not None:
            return self._local.decide(partition, decision, only_reads=only_reads)
        return self._run(partition, decision)

    async def _run(self, partition: Partition, decision: Decision[_Answer]) -> _Answer:
        known: dict[Ref, Row | None] = {}
        refused = NOTHING_REFUSED
        of_one_moment = True  # an answer or an error must not mix rows of different moments
        for attempt in range(ATTEMPTS_MAX):
            view = View(known, refused)
            try:
                finish = await offload.run(partial(decision, view), size_bytes=sum(map(size_of, known.values())))
            except UnknownRow as missing:
                refused = await self._fetch(partition, {*known, *missing.refs}, known)
                of_one_moment = True
                continue
            except AntiphonError:
                if of_one_moment and not view.assumed:
                    raise
                refused = await self._fetch(partition, {*known, *view.assumed}, known)  # then decides again
                of_one_moment = True
                continue
            if known and of_one_moment and not view.has_effects and not view.assumed:
                return finish(())
            outcome = await self._backend.transact(partition, view.program())
            if isinstance(outcome, Applied):
                require_whole_chains(outcome.answers)
                return finish(outcome.answers)
            refused = outcome
            of_one_moment = known.keys() <= view.pinned | outcome.rows.keys()  # pinned rows not returned are unchanged
            known.update(outcome.rows)
            if attempt >= QUICK_ATTEMPTS:
                await asyncio.sleep(random.uniform(0, PAUSE_S_MAX))  # noqa: S311 - spreads writers, not for security
        raise StoreUnavailable("The store is overloaded: too many writers change the same data. Try again later.")

    async def _fetch(self, partition: Partition, refs: Collection[Ref], known: dict[Ref, Row | None]) -> Refused:
        """Reads rows into `known`. Returns the time of the read, as a `Refused` without rows."""
        outcome = await self._backend.transact(partition, Program(reads=[Get(ref, self._payload) for ref in refs]))
        if isinstance(outcome, Applied):  # it has no guards
            known.update(zip(refs, outcome.answers, strict=True))
        return Refused(outcome.now_ms, {})
