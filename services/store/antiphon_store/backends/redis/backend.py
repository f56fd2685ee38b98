"""Rows in Redis. One script applies a program, on one server, under Sentinel and on a Cluster.

Entries of tenant-wide indexes lie in hash slots of their own. One server writes them in the program's step. A Cluster
cannot. There the backend writes entries before the program, and moves an entry to a later time or removes it only after
the program was applied, so that a row can always be found by its entries. Entries for `take_due` are written again
after the program, because a caller may have taken one, found no row, and be about to remove it. If the program is
rejected or its answer is lost, an entry may dangle, so readers verify an entry at its row.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import repeat, starmap
from typing import Any

from antiphon_core import damage, offload
from antiphon_core.clock import Clock
from antiphon_core.config import SettingsError
from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.redis import keys, programs, promises, scripts
from antiphon_store.backends.redis.addresses import Address, Topology
from antiphon_store.backends.redis.connection import connect
from antiphon_store.backends.redis.link import Link
from antiphon_store.backends.redis.maintenance import RedisMaintenance
from antiphon_store.backends.redis.scripts import Argument, Script
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.model import (
    NODE_LISTS,
    VOLATILE_TREES,
    Applied,
    Entry,
    File,
    Index,
    Kind,
    Outcome,
    Partition,
    Payload,
    Program,
    Range,
    Ref,
    Row,
    Span,
    Unfile,
    brings_rows,
    named_node,
)
from antiphon_store.rows.remote import RemoteBackend

ANNOUNCE_AGAIN_S = 3600.0
TENANTS_PER_CALL = 1000
NODES_PER_CALL = 1000  # that are listed: a few milliseconds of the server
LISTINGS_MAX = 3  # the first adds nodes; if the index then has others that were deleted, the second makes it anew

_TAKEN = frozenset({Index.QUEUE, Index.ENDS})  # indexes for `take_due`

_Entry = tuple[str, Argument, Argument]  # key, id and time


class RedisRows(RemoteBackend):
    """Implements `rows.backend.RowBackend`. Any number of processes may use the same servers.

    The servers' clock decides. `clock` is for tests alone, which move time by hand: with it, every client that shares
    data must share the clock.
    """

    def __init__(
        self, address: Address, *, durability: Durability = Durability.DISK, clock: Clock | None = None
    ) -> None:
        self._is_cluster = address.topology is Topology.CLUSTER
        if self._is_cluster and durability is Durability.QUORUM:
            raise SettingsError("Durability 'quorum' is not available on a Redis Cluster; 'disk' is.")
        self.durability = durability
        self._address = address
        self._clock = clock
        self._announced_s: dict[str, float] = {}  # tenant -> when this process last announced it
        self._link: Link | None = None
        self.maintenance = RedisMaintenance(self._atom)

    async def open(self) -> None:
        link = Link(connect(self._address))
        try:
            link.replicas = await self._check(link)
        except BaseException:
            await link.close()
            raise
        self._link = link

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()

    async def ready(self) -> None:
        with self._atom() as link:
            await link.ready()

    async def transact(self, partition: Partition, program: Program) -> Outcome:
        with self._atom():
            if any(isinstance(each, File) and each.of is Index.ENDS for each in program.changes):
                await self._announce(partition.tenant)
            return await (self._apply_on_cluster if self._is_cluster else self._apply)(partition, program)

    async def page(
        self, partition: Partition, index: Index, key: str, span: Span, *, payload: Payload | None = None
    ) -> tuple[int, Sequence[Entry]]:
        entries, lists_nodes = keys.entries(partition, index, key), index in NODE_LISTS
        names = [keys.root(partition) if payload is not None or lists_nodes else entries, entries]
        place = ("", "") if span.after is None else span.after
        with_nodes = [int(payload is not None), payload or "", int(lists_nodes)]
        options: list[Argument] = [int(span.is_descending), span.limit, *place, *with_nodes]
        with self._atom():
            _ok, now_ms, lines, *nodes = await self._read_page(names, options)
        if payload is None:
            return now_ms, _entries_of(lines, repeat(None))
        texts, *payloads = map(programs.join_lists, nodes)
        if payload:
            refs = [Ref(Kind.NODE, named_node(name)) for name in _names(lines)]
            return now_ms, _entries_of(lines, starmap(programs.to_row, zip(refs, texts, *payloads, strict=True)))
        return now_ms, await _nodes_of(lines, texts)

    async def children(
        self, partition: Partition, parents: Sequence[str], *, max_nodes: int
    ) -> tuple[int, Sequence[Entry]]:
        arguments: list[Argument] = [max_nodes, *parents]
        with self._atom():
            _ok, now_ms, lines, texts = await self._run(scripts.CHILDREN, [keys.root(partition)], arguments)
        found = await _nodes_of(lines, programs.join_lists(texts))
        return now_ms, [each for each in found if each.row is not None]

    async def ancestors(self, partition: Partition, node_ids: Sequence[str], *, depth: int) -> Mapping[str, str]:
        with self._atom():
            _ok, found = await self._run(scripts.ANCESTORS, [keys.root(partition)], [depth, *node_ids])
        return {node_id: each.decode() for node_id, each in zip(node_ids, found, strict=True) if each}

    async def subtree(
        self, partition: Partition, starts: Sequence[str], *, max_nodes: int
    ) -> tuple[int, Sequence[Entry]]:
        with self._atom():
            _ok, now_ms, ids, fields = await self._run(scripts.SUBTREE, [keys.root(partition)], [max_nodes, *starts])

        def read() -> Sequence[Entry]:
            names = [each.decode(errors="replace") for each in ids]
            return [Entry(name, 0, row) for name, row in zip(names, programs.to_nodes(names, fields), strict=True)]

        return now_ms, await offload.run(read, size_bytes=sum(map(len, fields)))

    async def take_due(self, tenant: str, index: Index, key: str, *, limit: int, hide_ms: int) -> Sequence[Entry]:
        names = [keys.tenant_wide(tenant, index, key)]
        with self._atom():
            _ok, due, taken_until = await self._run(scripts.TAKE_DUE, names, [limit, hide_ms])
        pairs = zip(due[::2], due[1::2], strict=True)
        with damage.reading(f"an index of tenant '{tenant}'"):
            return [Entry(entry_id.decode(), int(at), taken_until=taken_until) for entry_id, at in pairs]

    async def tenants(self) -> Sequence[str]:
        found: dict[str, None] = {}
        position = None
        with self._atom() as link:
            while position != 0:
                command = "SSCAN", keys.TENANTS, position or 0, "COUNT", TENANTS_PER_CALL
                position, names = await link.ask(*command)
                found |= dict.fromkeys(name.decode(errors="replace") for name in names)
        return list(found)

    # ---- Programs and calls ----

    async def _announce(self, tenant: str) -> None:
        """Adds a tenant to the set of all tenants, because finding tenants among the keys would take a scan of all
        keys. Each process adds a tenant before it first writes for it, and again every hour: a failover may lose the
        addition."""
        now_s = time.monotonic()
        if now_s >= self._announced_s.get(tenant, -ANNOUNCE_AGAIN_S) + ANNOUNCE_AGAIN_S:
            await self._open_link.run(scripts.ANNOUNCE, [keys.TENANTS], [tenant])
            self._announced_s[tenant] = now_s

    @property
    def _open_link(self) -> Link:
        if self._link is None:
            raise StoreUnavailable("The store is not open.")
        return self._link

    def _atom(self) -> AbstractContextManager[Link]:
        return self._open_link.atom()

    async def _apply(self, partition: Partition, program: Program) -> Outcome:
        script, names = _script(partition, program), [keys.root(partition)]
        is_short = not (self._is_cluster or any(isinstance(each, Range) for each in program.reads))
        answer = await self._run(script, names, programs.arguments(partition, program), is_short=is_short)
        return programs.outcome(program, answer)

    async def _apply_on_cluster(self, partition: Partition, program: Program) -> Outcome:
        """Applies a program whose entries lie in other slots."""
        before, after = _entries(partition, program)
        changes = [each for each in program.changes if not programs.is_tenant_wide(each)]
        late = await self._write_entries(before, may_be_earlier=True)
        outcome = await self._apply(partition, program._replace(changes=changes))
        if isinstance(outcome, Applied):
            await self._write_entries([*late, *after])
        return outcome

    async def _write_entries(self, entries: Iterable[_Entry], *, may_be_earlier: bool = False) -> Sequence[_Entry]:
        """Writes entries. `may_be_earlier`: entries that have an earlier time keep it, and are returned."""
        lines: defaultdict[str, list[Argument]] = defaultdict(lambda: [int(may_be_earlier)])
        for key, entry_id, at in entries:
            lines[key] += (entry_id, at)
        calls = [self._run(scripts.ENTRIES, [key], each) for key, each in lines.items()]
        answers = map(_require_answer, await asyncio.gather(*calls, return_exceptions=True))  # all end in their atom
        return [
            (key, *line)
            for key, (_ok, left) in zip(lines, answers, strict=True)
            for line in zip(left[::2], left[1::2], strict=True)
        ]

    async def _read_page(self, names: Sequence[str], options: Sequence[Argument]) -> Sequence[Any]:
        """Reads a page. An index of all nodes that is not complete is completed first: a release without these indexes
        wrote nodes, or deleted some."""
        for _ in range(LISTINGS_MAX):
            answer = await self._run(scripts.PAGE, names, options)
            if answer[0] != b"unlisted":
                return answer
            position = await self._list_nodes(names[0], b"0")
            while position != b"0":
                position = await self._list_nodes(names[0], position)
        return await self._run(scripts.PAGE, names, [*options[:-1], 0])

    async def _list_nodes(self, root: str, position: bytes) -> bytes:
        """Lists a part of all nodes, and returns the position of the next part."""
        _ok, next_position = await self._run(scripts.LIST_NODES, [root], [position, NODES_PER_CALL])
        return bytes(next_position)

    async def _run(
        self, script: Script, names: Sequence[str], arguments: Sequence[Argument], *, is_short: bool = False
    ) -> Sequence[Any]:
        now_ms: Argument = self._clock.now_ms() if self._clock is not None else ""
        answer: Sequence[Any] = await self._open_link.run(script, names, (now_ms, *arguments), is_short=is_short)
        return answer

    async def _check(self, link: Link) -> int:
        """Checks the servers, and returns how many replicas a write waits for. StoreUnavailable: a server's settings do
        not keep the durability."""
        infos = await link.ask_masters("INFO")
        settings = await link.ask_masters("CONFIG GET", *promises.SETTINGS)
        facts = [{**info, **set_to} for info, set_to in zip(infos, settings, strict=True)]
        for each in facts:
            promises.require(each, self.durability)
        if self.durability is not Durability.QUORUM:
            return 0
        return max(promises.replicas_to_wait_for(each) for each in facts)


def _entries_of(lines: Sequence[bytes], rows: Iterable[Row | None]) -> list[Entry]:
    """The entries of a script's ids and times, with their nodes."""
    with damage.reading("an index"):
        pairs = zip(_names(lines), map(int, lines[1::2]), rows, strict=False)
        return [Entry(name, at, row) for name, at, row in pairs]


def _names(lines: Sequence[bytes]) -> list[str]:
    """The ids of a script's ids and times."""
    return [entry_id.decode(errors="replace") for entry_id in lines[::2]]


async def _nodes_of(lines: Sequence[bytes], texts: Sequence[bytes | None]) -> list[Entry]:
    """The entries of a script's ids and times, with the nodes that they name, without payloads."""
    names = list(map(named_node, _names(lines)))

    def read() -> list[Entry]:
        return _entries_of(lines, programs.to_nodes(names, texts))

    return await offload.run(read, size_bytes=sum(len(text or b"") for text in texts))


def _require_answer(answer: Sequence[Any] | BaseException) -> Sequence[Any]:
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _script(partition: Partition, program: Program) -> Script:
    """The variant of the script that requires no more of a server than the program needs."""
    if not program.changes:
        return scripts.TRANSACT_READING
    if partition.tree in VOLATILE_TREES:
        return scripts.TRANSACT_VOLATILE
    return scripts.TRANSACT if brings_rows(program) else scripts.TRANSACT_SMALL


def _entries(partition: Partition, program: Program) -> tuple[Sequence[_Entry], Sequence[_Entry]]:
    """The entries to write before a program, and after it: some of the former again, and the removals. Of an entry that
    is changed twice the last change counts."""
    changes = {
        (keys.entries(partition, each.of, each.key), each.id): each
        for each in program.changes
        if isinstance(each, File | Unfile) and programs.is_tenant_wide(each)
    }
    before: list[_Entry] = []
    after: list[_Entry] = []
    for name, change in changes.items():
        if isinstance(change, Unfile):
            after.append((*name, f"={change.taken_until}" if change.taken_until else ""))
            continue
        before.append((*name, programs.entry_time(change.at)))
        if change.of in _TAKEN:
            after.append(before[-1])
    return before, after
