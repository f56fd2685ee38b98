"""Concurrent quota requests share a program. The prompts of a tenant share a partition."""

from __future__ import annotations

import asyncio
from itertools import chain

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_core.ports.quotas import Draw, QuotaRequest
from antiphon_store.rows.model import Kind, Partition, Program
from antiphon_store.service import StoreService
from tests.support.rows import SpiedRows, fields_of

T = "t"
PROMPT = "pmpt_" + "0" * 48
ONE = QuotaRequest([Draw("requests", 1, 1, 100, 0.001)])


class Gate:
    """Holds programs of one tenant until `opened` is set, then fails them with `error` if there is one."""

    def __init__(self, rows: SpiedRows, tenant: str = T) -> None:
        self.tenant = tenant
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.error: StoreUnavailable | None = None
        rows.before_transact = self.pass_through

    async def pass_through(self, partition: Partition, _program: Program) -> None:
        if partition.tenant == self.tenant:
            self.reached.set()
            await self.opened.wait()
            if self.error is not None:
                raise self.error


def take(store: StoreService, times: int, tenant: str = T) -> list[asyncio.Task[float]]:
    async def level() -> float:
        return (await store.take_quota(tenant, ONE)).levels[0].level

    return [asyncio.create_task(level()) for _ in range(times)]


async def first_under_way(store: StoreService, gate: Gate) -> asyncio.Task[float]:
    (first,) = take(store, 1)
    await gate.reached.wait()
    return first


async def settled() -> None:
    """Lets every task that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_concurrent_quota_requests_share_one_program(store: StoreService, rows: SpiedRows) -> None:
    gate = Gate(rows)
    first = await first_under_way(store, gate)
    others = take(store, 9)
    await settled()
    gate.opened.set()
    assert sorted(await asyncio.gather(first, *others)) == [90 + each for each in range(10)]
    written = [fields_of(program, Kind.QUOTA) for _, program in rows.programs if program.changes]
    assert [each["buckets"]["requests"][0] for each in written] == [99, 90]  # the first alone, then nine together


async def test_answers_come_in_the_order_of_the_requests(store: StoreService, rows: SpiedRows) -> None:
    gate = Gate(rows)
    first = await first_under_way(store, gate)
    others = take(store, 3)
    await settled()
    gate.opened.set()
    assert [await each for each in (first, *others)] == [99, 98, 97, 96]


async def test_quota_requests_do_not_wait_for_those_of_another_tenant(store: StoreService, rows: SpiedRows) -> None:
    gate = Gate(rows)
    first = await first_under_way(store, gate)
    assert (await store.take_quota("other", ONE)).levels[0].level == 99
    assert not first.done()
    gate.opened.set()
    await first


async def test_an_error_reaches_every_waiting_caller_and_later_requests_succeed(
    store: StoreService, rows: SpiedRows
) -> None:
    gate = Gate(rows)
    first = await first_under_way(store, gate)
    others = take(store, 3)
    await settled()
    gate.error = StoreUnavailable("down")
    gate.opened.set()
    found = await asyncio.gather(first, *others, return_exceptions=True)
    assert all(isinstance(each, StoreUnavailable) for each in found)
    rows.before_transact = None
    assert (await store.take_quota(T, ONE)).levels[0].level == 99


@pytest.mark.parametrize("whom", ["first", "another", "all others"])
async def test_a_cancelled_caller_does_not_disturb_other_quota_requests(
    store: StoreService, rows: SpiedRows, whom: str
) -> None:
    gate = Gate(rows)
    first = await first_under_way(store, gate)
    others = take(store, 3)
    await settled()
    cancelled = {"first": [first], "another": others[:1], "all others": others}[whom]
    for each in cancelled:
        each.cancel()
    await settled()
    gate.opened.set()
    found = await asyncio.gather(first, *others, return_exceptions=True)
    for task, answer in zip((first, *others), found, strict=True):
        assert isinstance(answer, asyncio.CancelledError if task in cancelled else (int, float))
    assert (await store.take_quota(T, ONE)).levels[0].level <= 99  # the next request is answered


async def test_repeated_concurrent_quota_requests_keep_sharing_programs(store: StoreService, rows: SpiedRows) -> None:
    async def let_others_run(_partition: Partition, _program: Program) -> None:
        await asyncio.sleep(0)

    async def again(times: int) -> list[float]:
        return [(await store.take_quota(T, ONE)).levels[0].level for _ in range(times)]

    rows.before_transact = let_others_run
    levels = await asyncio.gather(*(again(5) for _ in range(4)))
    assert sorted(chain.from_iterable(levels)) == [80 + each for each in range(20)]
    assert len(rows.calls) < 40  # it would be 40 if no requests were joined


async def test_all_prompts_of_a_tenant_lie_in_one_partition(store: StoreService, rows: SpiedRows) -> None:
    await store.put_prompt("t", PROMPT, 1, b"{}")
    await store.get_prompt("t", PROMPT)
    assert [each.id for each in await store.list_prompts("t")] == [PROMPT]
    await store.delete_prompt("t", PROMPT)
    assert await store.list_prompts("t") == []
    assert {partition for partition, _program in rows.programs} == {Partition("t", "prompts")}
