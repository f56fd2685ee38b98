"""What a tenant uses up of what it may."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from antiphon_core.ports.spending import Spend, Spent
from antiphon_store.decisions import quotas
from antiphon_store.engine.operations import Operations
from antiphon_store.rows.backend import RowBackend


class QuotaOperations(Operations):
    """Spends that arrive while a program runs go together in the next one. Nothing of it need be durable, as it is
    worth a minute."""

    def __init__(self, rows: RowBackend) -> None:
        super().__init__(rows)
        self._waiting: dict[str, list[tuple[Spend, asyncio.Future[Spent]]]] = {}  # while one is under way
        self._tasks: set[asyncio.Task[None]] = set()

    async def spend(self, tenant: str, spend: Spend) -> Spent:
        """All draws and places of a spend, or none of them, in one step with the look whether there is enough."""
        answer: asyncio.Future[Spent] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.get(tenant)
        if waiting is not None:
            waiting.append((spend, answer))
            return await answer
        self._waiting[tenant] = []
        try:
            (spent,) = await self._spend(tenant, [spend])
            return spent
        finally:
            self._go_on(tenant)

    def _go_on(self, tenant: str) -> None:
        """Begins with what has come meanwhile, in a task of its own: its callers wait, not the one before."""
        batch = self._waiting[tenant]
        if not batch:
            del self._waiting[tenant]
            return
        self._waiting[tenant] = []
        task = asyncio.create_task(self._run_batch(tenant, batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_batch(self, tenant: str, batch: list[tuple[Spend, asyncio.Future[Spent]]]) -> None:
        try:
            answers: list[Spent | Exception] = list(await self._spend(tenant, [spend for spend, _ in batch]))
        except Exception as error:  # noqa: BLE001 - it is raised to those who wait
            answers = [error] * len(batch)
        finally:
            self._go_on(tenant)
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    async def _spend(self, tenant: str, spends: Sequence[Spend]) -> Sequence[Spent]:
        return await self._runner.run(quotas.partition_of(tenant), partial(quotas.spend, spends=spends))
