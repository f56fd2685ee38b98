"""The names of keys: which data lie together, and therefore in one hash slot of a Redis Cluster.

    antiphon:{TENANT}:TAG                  the root of a tree's keys, by the tag in its responses' ids
        :ids       hash    response id -> place ("branch:depth")
        :meta      hash    place -> the words of parts/nodes.lua
        :items     hash    place -> input and output items, packed
        :body      hash    place -> body
        :item_ids  hash    place -> the ids of its items, for parts/catalogue.lua
        :branches  hash    branch -> place that it was forked from; "last" and "end", see parts/lineage.lua
        :forks     zset    "place/branch", the same downwards
        :heads     hash    response id -> how many sessions have it as their head
        :log:ID    hash    where the event log of a response ends
        :events:ID stream  its batches
        :job:ID    hash    a job, and its payload; see parts/jobs.lua
    antiphon:{TENANT}:TAG:session:ID       hash    a session; one whose id has no tag: its id instead of TAG
    antiphon:{TENANT}:TAG:conversation:ID  hash    a conversation; see parts/conversations.lua
    antiphon:{TENANT}:TAG:removed:ID       set     the ids of the items that were taken out of it
    antiphon:{TENANT}:                     the root of a tenant's keys, the tree of no tag
        :ends      zset    what expires, by when: a letter for its kind, and its name; see parts/ends.lua
        :made:ID   zset    the responses made in a session; see parts/catalogue.lua
        :item:ID   zset    the responses that an item is in, and additions to conversations
        :queue:Q   zset    the jobs of a queue, by when they can be claimed; see parts/job_steps.lua
        :held:Q    hash    holder -> the job of the queue that it claimed last
        :key:KEY   hash    what became of an idempotency key; see parts/key_uses.lua
        :buckets   hash    what the tenant may use up; see spend.lua
        :places    zset    what it runs at once, by when that is over
    antiphon:tenants                       set     everybody who ever wrote; see retention.py

With `Partition.TREE` each tree is a slot of its own: `antiphon:{TENANT:TAG}`. There is no slot then for what belongs to
a tenant and to no tree: `require_one_slot`. Buckets and places have one of their own. Tenants are quoted, so that
none can forge a brace or a colon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from urllib.parse import quote

from antiphon_core.errors import InvalidRequest, Unimplemented
from antiphon_core.ids import tree_tag

TENANTS = "antiphon:tenants"
_PREFIX = "antiphon:"


class Partition(StrEnum):
    """What lies together."""

    TENANT = "tenant"  # all that a tenant has, on one master: every atom covers all of it
    TREE = "tree"  # a conversation, on a Cluster: spreads each tenant over all masters


@dataclass(frozen=True, slots=True)
class Keyspace:
    """The layout on one deployment. What does not lie together cannot be in one atom."""

    partition: Partition = Partition.TENANT

    @property
    def is_spread(self) -> bool:
        return self.partition is Partition.TREE

    def around_tag(self, tenant: str) -> tuple[str, str]:
        """What stands before and after a tree's tag in the root of its keys: scripts find other trees by it, and a
        tenant's own keys with no tag in between."""
        name = _quoted(tenant)
        if self.is_spread:
            return f"{_PREFIX}{{{name}:", "}"
        return f"{_PREFIX}{{{name}}}:", ""

    def tree_root(self, tenant: str, response_id: str) -> str:
        return self._root(tenant, tree_tag(response_id) or response_id)

    def tenant_root(self, tenant: str, rpc: str) -> str:
        """The root of what belongs to no tree. Unimplemented: as `require_one_slot`."""
        self.require_one_slot(rpc)
        return self._root(tenant, "")

    def session_key(self, tenant: str, session_id: str) -> str:
        return f"{self._root(tenant, tree_tag(session_id) or session_id)}:session:{session_id}"

    def context_keys(self, tenant: str, session_id: str) -> list[str]:
        """A session, and the items that were taken out of its context."""
        root = self._root(tenant, tree_tag(session_id) or session_id)
        return [self.session_key(tenant, session_id), f"{root}:removed:{session_id}"]

    def conversation_keys(self, tenant: str, conversation_id: str) -> list[str]:
        """A conversation, the items that were taken out of it, its session."""
        session, removed = self.context_keys(tenant, conversation_id)
        return [f"{self.tree_root(tenant, conversation_id)}:conversation:{conversation_id}", removed, session]

    def key_use(self, tenant: str, key: str, rpc: str) -> str:
        """What became of an idempotency key. Unimplemented: as `require_one_slot`."""
        return f"{self.tenant_root(tenant, rpc)}:key:{key}"

    def made_key(self, tenant: str, session_id: str) -> str:
        """The responses that were made in a session: in the slot of their tree, when trees have slots."""
        root = self._root(tenant, (tree_tag(session_id) or session_id) if self.is_spread else "")
        return f"{root}:made:{session_id}"

    def spending_keys(self, tenant: str) -> list[str]:
        """A tenant's buckets and its places: in one slot, however the rest lies."""
        root = self._root(tenant, "")
        return [f"{root}:buckets", f"{root}:places"]

    def job_key(self, tenant: str, job_id: str) -> str:
        return f"{self.tree_root(tenant, job_id)}:job:{job_id}"

    def job_keys(self, tenant: str, job_id: str, rpc: str) -> list[str]:
        """The root of what lists jobs, and a job. Unimplemented: as `require_one_slot`."""
        return [self.tenant_root(tenant, rpc), self.job_key(tenant, job_id)]

    def fence_keys(self, tenant: str, session_id: str) -> list[str]:
        """The keys of the job and of the session that a fence may be of."""
        return [self.job_key(tenant, session_id), self.session_key(tenant, session_id)]

    def together(self, response_ids: Sequence[str]) -> list[list[str]]:
        """The ids in groups that one atom can cover."""
        if not self.is_spread:
            return [list(response_ids)]
        groups: dict[str | None, list[str]] = {}
        for each in response_ids:
            groups.setdefault(tree_tag(each), []).append(each)
        return list(groups.values())

    def require_one_slot(self, rpc: str) -> None:
        """Unimplemented when a tenant's data lie in many slots, and the RPC needs them in one."""
        if self.is_spread:
            raise Unimplemented.of(f"{rpc} on a Redis Cluster partitioned by tree")

    def require_together(self, response_id: str, session_id: str, *, field: str) -> None:
        """InvalidRequest when one atom cannot cover the response and the session."""
        if self.is_spread and tree_tag(response_id) != tree_tag(session_id):
            raise _apart(session_id, field)

    def require_turns(self, session_id: str, *, field: str) -> None:
        """InvalidRequest when a session can hold no responses: its id does not say which tree it belongs to."""
        if self.is_spread and tree_tag(session_id) is None:
            raise _apart(session_id, field)

    def _root(self, tenant: str, tag: str) -> str:
        before, after = self.around_tag(tenant)
        return before + tag + after


@lru_cache(maxsize=1024)
def _quoted(tenant: str) -> str:
    return quote(tenant, safe="")


def _apart(session_id: str, field: str) -> InvalidRequest:
    return InvalidRequest(
        f"This store is spread over a Redis Cluster: session '{session_id}' and its responses must share a tree tag "
        "('conv_' and 48 hexadecimal digits, as the responses' ids), or the store be partitioned by tenant.",
        field=field,
        code="invalid_value",
    )
