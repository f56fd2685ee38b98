from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.ports.tools import (
    Credentials,
    OnProgress,
    Outcome,
    Progress,
    ToolCall,
    ToolResult,
    ToolServer,
    ignore_progress,
)
from antiphon_tools.ledger import ENDED_BYTES_MAX, ENDED_ITEMS_MAX, KEPT_S, Ledger

CALL = ToolCall("resp_1/call_1", ToolServer("github"), "add", b"{}")


class Counter:
    """Counts how often a call runs. Each run ends with the result once it may."""

    def __init__(self, result: ToolResult | None = None) -> None:
        self.count = 0
        self.may_end = asyncio.Event()
        self._result = result or ToolResult(Outcome.OK, "done")

    async def run(self, on_progress: OnProgress) -> ToolResult:
        self.count += 1
        on_progress(Progress(1.0))
        await self.may_end.wait()
        on_progress(Progress(2.0))
        return self._result


async def test_a_call_runs_once_for_all_that_attach() -> None:
    ledger, runs = Ledger(ManualClock()), Counter()
    seen: list[Progress] = []
    first = asyncio.create_task(ledger.begin("acme", CALL, runs.run).result(ignore_progress))
    await asyncio.sleep(0)
    found = ledger.find("acme", CALL.id)
    assert found is not None
    second = asyncio.create_task(found.result(seen.append))
    await asyncio.sleep(0)
    assert ledger.running == 1
    runs.may_end.set()
    assert await first == await second == ToolResult(Outcome.OK, "done")
    assert seen == [Progress(2.0)]
    refreshed = replace(CALL, credentials=Credentials("new"), timeout_s=1.0)
    assert await ledger.begin("acme", refreshed, runs.run).result(ignore_progress) == ToolResult(Outcome.OK, "done")
    assert (runs.count, ledger.running) == (1, 0)


async def test_a_waiter_that_leaves_does_not_end_the_call() -> None:
    ledger, runs = Ledger(ManualClock()), Counter()
    entry = ledger.begin("acme", CALL, runs.run)
    waiting = asyncio.create_task(entry.result(ignore_progress))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not entry.task.done()
    runs.may_end.set()
    assert (await entry.result(ignore_progress)).text == "done"


@pytest.mark.parametrize(
    "other",
    [
        replace(CALL, tool="sub"),
        replace(CALL, arguments=b"{} "),
        replace(CALL, server=ToolServer("x")),
        replace(CALL, digest="d"),
    ],
)
async def test_an_id_with_other_content_does_not_run_and_its_outcome_is_unknown(other: ToolCall) -> None:
    ledger, runs = Ledger(ManualClock()), Counter()
    runs.may_end.set()
    await ledger.begin("acme", CALL, runs.run).result(ignore_progress)
    result = await ledger.begin("acme", other, runs.run).result(ignore_progress)
    assert (result.outcome, result.error and result.error.message) == (
        Outcome.UNKNOWN,
        "A call with this id was made with other content.",
    )
    await ledger.begin("globex", other, runs.run).result(ignore_progress)  # another tenant's ids are its own
    assert runs.count == 2


@pytest.mark.parametrize(
    ("outcome", "count"),
    [
        (Outcome.NOT_SENT, 2),
        (Outcome.REFUSED, 2),
        (Outcome.UNKNOWN, 1),
        (Outcome.TOOL_ERROR, 1),
        (Outcome.HTTP_ERROR, 1),
    ],
)
async def test_only_a_call_that_was_not_sent_runs_again(outcome: Outcome, count: int) -> None:
    ledger, runs = Ledger(ManualClock()), Counter(ToolResult(outcome))
    runs.may_end.set()
    for _ in range(2):
        await ledger.begin("acme", CALL, runs.run).result(ignore_progress)
        await asyncio.sleep(0)
    assert runs.count == count


async def test_ended_calls_are_forgotten_by_age_number_and_bytes() -> None:
    clock = ManualClock()
    ledger, runs = Ledger(clock), Counter(ToolResult(Outcome.OK, "x" * 2**20))
    runs.may_end.set()
    ids = [f"c{number}" for number in range(ENDED_BYTES_MAX // 2**20 + 2)]
    for call_id in ids:
        await ledger.begin("acme", replace(CALL, id=call_id), runs.run).result(ignore_progress)
    assert ledger.find("acme", ids[0]) is None
    assert ledger.find("acme", ids[-1]) is not None
    clock.advance(KEPT_S + 1)
    await ledger.begin("acme", CALL, runs.run).result(ignore_progress)
    assert ledger.find("acme", ids[-1]) is None
    assert ENDED_ITEMS_MAX * 500 < ENDED_BYTES_MAX  # the number is the limit of small results


async def test_close_ends_the_calls_that_run() -> None:
    ledger, runs = Ledger(ManualClock()), Counter()
    entry = ledger.begin("acme", CALL, runs.run)
    await asyncio.sleep(0)
    await ledger.close()
    assert entry.task.cancelled()
