"""Conversations, and what a tenant uses up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.spending import Spend, Spent
from antiphon_store.backends.roles.conversations import Addition, Founding
from antiphon_store.decisions import conversations, quotas
from antiphon_store.engine.trees import Trees
from antiphon_store.rows.runner import DecisionRunner


class ConversationOperations:
    """Sessions with metadata, and items that are added to them by hand."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    async def create_conversation(self, tenant: str, founding: Founding) -> Conversation:
        decision = partial(conversations.create, founding=founding)
        return await self._trees.of_response(tenant, founding.conversation_id, decision)

    async def fetch_conversation(self, tenant: str, conversation_id: str) -> Conversation:
        decision = partial(conversations.fetch, conversation_id=conversation_id)
        return await self._trees.of_response(tenant, conversation_id, decision, only_reads=True)

    async def update_conversation(
        self, tenant: str, conversation_id: str, metadata: bytes, expected_version: int | None
    ) -> Conversation:
        decision = partial(
            conversations.update,
            conversation_id=conversation_id,
            metadata=metadata,
            expected_version=expected_version,
        )
        return await self._trees.of_response(tenant, conversation_id, decision)

    async def remove_conversation(
        self, tenant: str, conversation_id: str, *, responses_ttl_ms: int | None = None
    ) -> None:
        decision = partial(conversations.remove, conversation_id=conversation_id, responses_ttl_ms=responses_ttl_ms)
        await self._trees.of_response(tenant, conversation_id, decision)

    async def add_items(self, tenant: str, conversation_id: str, addition: Addition) -> bytes:
        decision = partial(conversations.add_items, conversation_id=conversation_id, addition=addition)
        return await self._trees.of_response(tenant, conversation_id, decision)

    async def conversation_items(self, tenant: str, conversation_id: str) -> bytes:
        decision = partial(conversations.read_items, conversation_id=conversation_id)
        return await self._trees.of_response(tenant, conversation_id, decision, only_reads=True)

    async def remove_item(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        items = await self.conversation_items(tenant, conversation_id)
        is_there = conversations.find(items, item_id) is not None
        decision = partial(
            conversations.remove_item, conversation_id=conversation_id, item_id=item_id, is_there=is_there
        )
        return await self._trees.of_response(tenant, conversation_id, decision)


class QuotaOperations:
    """Quotas. Spends that arrive while a program runs go together in the next one."""

    def __init__(self, runner: DecisionRunner) -> None:
        self._runner = runner
        self._waiting: dict[str, list[tuple[Spend, asyncio.Future[Spent]]]] = {}  # while one is under way
        self._tasks: set[asyncio.Task[None]] = set()

    async def spend(self, tenant: str, spend: Spend) -> Spent:
        answer: asyncio.Future[Spent] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.get(tenant)
        if waiting is not None:
            waiting.append((spend, answer))
            return await answer
        self._waiting[tenant] = []
        try:
            (spent,) = await self._run(tenant, [spend])
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
            answers: list[Spent | Exception] = list(await self._run(tenant, [spend for spend, _ in batch]))
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

    async def _run(self, tenant: str, spends: Sequence[Spend]) -> Sequence[Spent]:
        return await self._runner.run(quotas.partition_of(tenant), partial(quotas.spend, spends=spends))
