"""Retention of the memory engine: what nobody can see any more is let go of."""

# ruff: noqa: SLF001 - the functions below are parts of the engine, too

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Protocol

from antiphon_core.ports.retention import Sweeping
from antiphon_store.backends import job_states
from antiphon_store.backends.conversations import StoredConversation
from antiphon_store.backends.memory_event_logs import MemoryLog
from antiphon_store.backends.memory_jobs import MemoryJobTable

if TYPE_CHECKING:
    from antiphon_store.backends.memory import _Node

_Key = tuple[str, str]


class _Memory(Protocol):
    """What the engine has for its topics."""

    _nodes: dict[_Key, _Node]
    _logs: dict[_Key, MemoryLog]
    _job_table: MemoryJobTable
    _conversations: dict[_Key, StoredConversation]

    def _now_ms(self) -> int: ...

    def _end_conversation(self, tenant: str, conversation_id: str, now_ms: int) -> None: ...

    def _is_kept(self, node: _Node, now_ms: int) -> bool: ...

    def _drop_leaf(self, node: _Node) -> None: ...


class MemoryRetention:
    """Implements `roles.retention.RetentionAtoms` for MemoryBackend."""

    async def sweep(self: _Memory, tenant: str, *, limit: int) -> Sweeping:
        now_ms = self._now_ms()
        sizes_bytes = _reclaimed(self, tenant, now_ms)
        swept = list(islice(sizes_bytes, limit))
        return Sweeping(len(swept), sum(swept), has_more=_is_anything_left(self, tenant, now_ms))

    async def tenants(self: _Memory) -> Sequence[str]:
        self._now_ms()
        keys = chain(self._nodes, self._logs, self._job_table.jobs, self._conversations)
        return sorted({tenant for tenant, _ in keys})


def _reclaimed(memory: _Memory, tenant: str, now_ms: int) -> Iterator[int]:
    """Lets go of one thing after the other, as far as it is asked: the bytes of each."""
    for key in _expired_conversations(memory, tenant, now_ms):
        size_bytes = len(memory._conversations[key].conversation.metadata)
        memory._end_conversation(*key, now_ms)
        yield size_bytes
    for node in _leaves(memory, tenant, now_ms):
        step: _Node | None = node
        while step is not None and not step.children and not memory._is_kept(step, now_ms):
            memory._drop_leaf(step)
            yield len(step.record.body) + len(step.record.input_items) + len(step.record.output_items)
            step = step.parent
    for key in _expired_logs(memory, tenant, now_ms):
        yield memory._logs.pop(key).size_bytes
    for _tenant, job_id in _forgettable_jobs(memory, tenant, now_ms):
        size_bytes = len(memory._job_table.jobs[tenant, job_id].payload)
        memory._job_table.drop(tenant, job_id)
        yield size_bytes


def _is_anything_left(memory: _Memory, tenant: str, now_ms: int) -> bool:
    finders = (_expired_conversations, _leaves, _expired_logs, _forgettable_jobs)
    return any(finder(memory, tenant, now_ms) for finder in finders)


def _expired_conversations(memory: _Memory, tenant: str, now_ms: int) -> list[_Key]:
    return [key for key, each in memory._conversations.items() if key[0] == tenant and each.is_expired(now_ms)]


def _leaves(memory: _Memory, tenant: str, now_ms: int) -> list[_Node]:
    """What nothing continues and nothing keeps."""
    return [
        node
        for (owner, _), node in memory._nodes.items()
        if owner == tenant and not node.children and not memory._is_kept(node, now_ms)
    ]


def _expired_logs(memory: _Memory, tenant: str, now_ms: int) -> list[_Key]:
    return [key for key, log in memory._logs.items() if key[0] == tenant and not log.state.is_there(now_ms)]


def _forgettable_jobs(memory: _Memory, tenant: str, now_ms: int) -> list[_Key]:
    return [
        key
        for key, job in memory._job_table.jobs.items()
        if key[0] == tenant and job_states.as_of(job.stored, now_ms) is None
    ]
