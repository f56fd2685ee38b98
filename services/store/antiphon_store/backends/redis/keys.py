"""The names of keys: which data lie together, and therefore in one hash slot of a Redis Cluster.

    antiphon:{TENANT:TAG}                       the root of a tree's keys, by the tag in its responses' ids
        :ids       hash    response id -> place ("branch:depth")
        :meta      hash    place -> the words of parts/nodes.lua
        :items     hash    place -> input and output items, packed
        :body      hash    place -> body
        :branches  hash    branch -> place that it was forked from; "last" and "end", see parts/lineage.lua
        :forks     zset    "place/branch", the same downwards
        :heads     hash    response id -> how many sessions have it as their head
        :log:ID    hash    where the event log of a response ends
        :events:ID stream  its batches
    antiphon:{TENANT:TAG}:session:ID            hash    a session, in its tree's slot when its id has a tag

With `Partition.TENANT` everything of a tenant is in one slot: `antiphon:{TENANT}:TAG` and so on. Tenants are quoted, so
that none can forge a brace or a colon.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import tree_tag

_PREFIX = "antiphon:"


class Partition(StrEnum):
    """What lies together."""

    TREE = "tree"  # a conversation: spreads each tenant over all masters
    TENANT = "tenant"  # all that a tenant has: any session with any response, on one master


@dataclass(frozen=True, slots=True)
class Keyspace:
    """The layout on one deployment. `clustered`: what does not lie together cannot be in one atom."""

    partition: Partition = Partition.TREE
    clustered: bool = False

    def around_tag(self, tenant: str) -> tuple[str, str]:
        """What stands before and after a tree's tag in the root of its keys: scripts find other trees by it."""
        name = quote(tenant, safe="")
        if self.partition is Partition.TENANT:
            return f"{_PREFIX}{{{name}}}:", ""
        return f"{_PREFIX}{{{name}:", "}"

    def tree_root(self, tenant: str, response_id: str) -> str:
        return self._root(tenant, tree_tag(response_id) or response_id)

    def session_key(self, tenant: str, session_id: str) -> str:
        return f"{self._root(tenant, tree_tag(session_id) or session_id)}:session:{session_id}"

    def log_keys(self, tenant: str, response_id: str) -> list[str]:
        """The end of a response's event log, and its batches."""
        root = self.tree_root(tenant, response_id)
        return [f"{root}:log:{response_id}", f"{root}:events:{response_id}"]

    def require_together(self, response_id: str, session_id: str, *, field: str) -> None:
        """InvalidRequest when one atom cannot cover the response and the session."""
        if self._is_spread and tree_tag(response_id) != tree_tag(session_id):
            raise _apart(session_id, field)

    def require_turns(self, session_id: str, *, field: str) -> None:
        """InvalidRequest when a session can hold no responses: its id does not say which tree it belongs to."""
        if self._is_spread and tree_tag(session_id) is None:
            raise _apart(session_id, field)

    @property
    def _is_spread(self) -> bool:
        return self.clustered and self.partition is Partition.TREE

    def _root(self, tenant: str, tag: str) -> str:
        before, after = self.around_tag(tenant)
        return before + tag + after


def _apart(session_id: str, field: str) -> InvalidRequest:
    return InvalidRequest(
        f"This store is spread over a Redis Cluster: session '{session_id}' and its responses must share a tree tag "
        "('conv_' and 48 hexadecimal digits, as the responses' ids), or the store be partitioned by tenant.",
        field=field,
        code="invalid_value",
    )
