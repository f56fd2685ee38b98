"""The shape of trees on the Redis engine: what lies below a response and beside it, and a status by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon_core.ports.lineage import TreeNode
from antiphon_core.ports.store import Precondition, Stamp, Status
from antiphon_store.backends.redis import answers, scripts
from antiphon_store.backends.redis.calls import NONE, PRECONDITION_FENCE, Argument, condition_arguments
from antiphon_store.backends.redis.engine import Engine
from antiphon_store.backends.roles.lineage import Position, Slice, Twig
from antiphon_store.backends.slices import require_nodes


class RedisTrees:
    """Implements these atoms of `roles.lineage.LineageAtoms` for RedisBackend."""

    async def change_status(
        self: Engine, tenant: str, response_id: str, status: Status, precondition: Precondition
    ) -> Stamp:
        keys = self._record_keys(tenant, response_id, (precondition.fence, PRECONDITION_FENCE))
        arguments: list[Argument] = [response_id, status.value, *condition_arguments(precondition)]
        return answers.stamp(await self._run(scripts.CHANGE_STATUS, tenant, keys, arguments))

    async def subtree(
        self: Engine, tenant: str, response_id: str, *, from_root: bool, max_nodes: int
    ) -> Sequence[Twig]:
        keys = [self._keys.tree_root(tenant, response_id)]
        metas, readable = await self._run(scripts.SUBTREE, tenant, keys, [response_id, int(from_root), max_nodes])
        require_nodes(response_id, len(metas), max_nodes=max_nodes)
        return [answers.twig(*each) for each in zip(metas, readable, strict=True)]

    async def children(
        self: Engine, tenant: str, response_id: str, *, after: Position | None, limit: int
    ) -> Slice[TreeNode]:
        keys = [self._keys.tree_root(tenant, response_id)]
        return _slice(await self._run(scripts.CHILDREN, tenant, keys, _page(response_id, after, limit)))

    async def siblings(
        self: Engine, tenant: str, response_id: str, *, after: Position | None, limit: int
    ) -> Slice[TreeNode]:
        keys = [self._keys.tree_root(tenant, response_id)]
        return _slice(await self._run(scripts.SIBLINGS, tenant, keys, _page(response_id, after, limit)))


def _page(response_id: str, after: Position | None, limit: int) -> list[Argument]:
    if after is None:
        return [response_id, NONE, NONE, limit]
    return [response_id, after.created_at_ms, after.id, limit]


def _slice(answer: Sequence[Any]) -> Slice[TreeNode]:
    metas, counts, has_more = answer
    return Slice([answers.tree_node(*each) for each in zip(metas, counts, strict=True)], has_more=bool(has_more))
