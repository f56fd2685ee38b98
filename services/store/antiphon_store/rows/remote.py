"""Decisions on the rows of a database that is not in this process: retried with the rows whose guards failed."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from antiphon_core import offload
from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_store.rows.model import (
    Applied,
    ChainRows,
    Get,
    Outcome,
    Partition,
    Payload,
    Program,
    Ref,
    Rejection,
    Row,
    size_of,
)
from antiphon_store.rows.view import NO_REJECTION, Decision, UnknownRow, View, require_whole

if TYPE_CHECKING:
    from antiphon_store.rows.backend import RowBackend

ATTEMPTS_MAX = 100  # an attempt fails only when another writer succeeded
QUICK_ATTEMPTS = 3  # before later attempts there is a random pause
PAUSE_S_MAX = 0.01

_Answer = TypeVar("_Answer")


class RemoteBackend(ABC):
    """The decisions of `rows.backend.RowBackend`, over the backend's `transact`. A decision that sees large payloads
    runs in a thread, because it may parse them."""

    @property
    def as_stored(self) -> RowBackend:
        return cast("RowBackend", self)  # each subclass is one

    def digest_names(self, digest: bytes) -> Sequence[str]:
        return [digest.hex()]

    @abstractmethod
    async def transact(self, partition: Partition, program: Program) -> Outcome: ...

    async def decide(
        self,
        partition: Partition,
        decision: Decision[_Answer],
        *,
        only_reads: bool = False,
        payload: Payload = Payload.ALL,
    ) -> _Answer:
        known: dict[Ref, Row | None] = {}
        rejection = NO_REJECTION
        of_one_moment = True  # an answer or an error must not mix rows of different moments
        for attempt in range(ATTEMPTS_MAX):
            view = View(known, rejection)
            try:
                finish = await offload.run(partial(decision, view), size_bytes=sum(map(size_of, known.values())))
            except UnknownRow as missing:
                rejection = await _read_into(self, partition, {*known, *missing.refs}, known, payload)
                of_one_moment = True
                continue
            except AntiphonError:
                if of_one_moment and not view.assumed_refs:
                    raise
                rejection = await _read_into(self, partition, {*known, *view.assumed_refs}, known, payload)
                of_one_moment = True
                continue
            if known and of_one_moment and not view.has_effects and not view.assumed_refs:
                return finish(())
            outcome = await self.transact(partition, view.program())
            if isinstance(outcome, Applied):
                for each in (one for one in outcome.answers if isinstance(one, ChainRows)):
                    require_whole(each)
                return finish(outcome.answers)
            rejection = outcome
            unchanged = view.pinned_refs  # those that are not returned
            of_one_moment = known.keys() <= unchanged | outcome.rows.keys()
            known.update(outcome.rows)
            if attempt >= QUICK_ATTEMPTS:
                await asyncio.sleep(random.uniform(0, PAUSE_S_MAX))  # noqa: S311 - spreads writers, not for security
        raise StoreUnavailable("The store is overloaded: too many writers change the same data. Try again later.")


async def _read_into(
    backend: RemoteBackend, partition: Partition, refs: Collection[Ref], known: dict[Ref, Row | None], payload: Payload
) -> Rejection:
    """Reads rows into `known`. Returns the time of the read, as a `Rejection` without rows."""
    outcome = await backend.transact(partition, Program(reads=[Get(ref, payload) for ref in refs]))
    if isinstance(outcome, Applied):  # it has no guards
        known.update(zip(refs, outcome.answers, strict=True))
    return Rejection(outcome.now_ms, {})
