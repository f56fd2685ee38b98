from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from antiphon_core import limits
from antiphon_core.ports.quotas import Draw, Hold, Level, QuotaAnswer, QuotaRequest
from antiphon_edge.quotas.settling import QuotaSettler


class Counts:
    """A rate limit counter. It answers while `may_answer` is set, and raises `fault` if there is one."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, QuotaRequest]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.fault: Exception | None = None

    async def take_quota(self, tenant: str, quota_request: QuotaRequest) -> QuotaAnswer:
        self.asked.append((tenant, quota_request))
        await self.may_answer.wait()
        if self.fault is not None:
            raise self.fault
        return QuotaAnswer((Level("tokens", 1, 60, 0),))


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def heard() -> list[tuple[str, QuotaAnswer]]:
    return []


Make = Callable[[float], QuotaSettler]


@pytest.fixture
async def settling(counts: Counts, heard: list[tuple[str, QuotaAnswer]]) -> AsyncIterator[Make]:
    made: list[QuotaSettler] = []

    def make(ttl_s: float = 30.0) -> QuotaSettler:
        made.append(
            QuotaSettler(
                counts,
                ttl_s=ttl_s,
                charge_of=lambda tokens: Draw("tokens", tokens, 0, 60, 60),
                on_answer=lambda tenant, answer: heard.append((tenant, answer)),
            )
        )
        return made[-1]

    yield make
    counts.may_answer.set()
    for each in made:
        await each.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


async def test_charges_and_ends_during_a_call_are_settled_in_one_call(
    settling: Make, counts: Counts, heard: list[tuple[str, QuotaAnswer]]
) -> None:
    settler = settling(30.0)
    counts.may_answer.clear()
    settler.charge("acme", 5)
    await until(lambda: len(counts.asked) == 1)
    for tokens in (1, 2, 3):
        settler.charge("acme", tokens)
        settler.end("acme", f"p{tokens}")
    settler.charge("globex", 7)
    settler.charge("globex", 0)
    await until(lambda: len(counts.asked) == 2)
    assert sorted(settler.ended_slots("acme")) == ["p1", "p2", "p3"]
    counts.may_answer.set()
    await settler.close()
    assert [
        (tenant, [draw.amount for draw in asked.draws], sorted(asked.release)) for tenant, asked in counts.asked
    ] == [
        ("acme", [5], []),
        ("globex", [7], []),
        ("acme", [6], ["p1", "p2", "p3"]),
    ]
    assert sorted(tenant for tenant, _ in heard) == ["acme", "acme", "globex"]
    assert (settler.ended_slots("acme"), settler._unsettled) == ([], {})


async def test_stream_slots_are_renewed_until_their_end(settling: Make, counts: Counts) -> None:
    settler = settling(0.03)
    for slot in ("a", "b"):
        settler.hold("acme", slot)
    settler.hold("globex", "c")
    await until(lambda: len(counts.asked) >= 4)
    for tenant, held in (("acme", ["a", "b"]), ("globex", ["c"])):
        assert [asked for who, asked in counts.asked if who == tenant][:2] == [QuotaRequest(hold=Hold(held, 30))] * 2
    settler.end("acme", "a")
    settler.end("globex", "c")
    await until(lambda: counts.asked[-1] == ("acme", QuotaRequest(hold=Hold(["b"], 30))))
    settler.end("acme", "b")
    renewing = settler._renewing
    assert renewing is not None
    await until(renewing.done)  # no slot is held any more
    settler.hold("acme", "d")
    await until(lambda: counts.asked[-1] == ("acme", QuotaRequest(hold=Hold(["d"], 30))))


async def test_stream_slot_is_not_renewed_after_its_end(settling: Make, counts: Counts) -> None:
    settler = settling(0.03)
    settler.hold("acme", "a")
    counts.may_answer.clear()
    await until(lambda: len(counts.asked) == 1)  # the renewal of the slot is on its way
    settler.end("acme", "a")
    await asyncio.sleep(0.05)
    assert len(counts.asked) == 1
    counts.may_answer.set()
    await settler.close()
    assert counts.asked[1:] == [("acme", QuotaRequest((), None, ["a"]))]


async def test_slots_beyond_the_limit_of_one_quota_request_are_split(settling: Make, counts: Counts) -> None:
    settler = settling(0.03)
    slots = [f"p{number}" for number in range(limits.QUOTA_SLOTS_ITEMS_MAX + 1)]
    for slot in slots:
        settler.hold("acme", slot)
    await until(lambda: len(counts.asked) >= 2)
    holds = [asked.hold for _tenant, asked in counts.asked[:2]]
    assert [len(hold.ids) for hold in holds if hold is not None] == [limits.QUOTA_SLOTS_ITEMS_MAX, 1]
    counts.asked.clear()
    for slot in slots:
        settler.end("acme", slot)
    assert len(settler.ended_slots("acme")) == limits.QUOTA_SLOTS_ITEMS_MAX
    await settler.close()
    assert {slot for _tenant, asked in counts.asked for slot in asked.release} == set(slots)


async def test_failed_settlement_is_logged_and_the_next_one_is_sent(
    settling: Make, counts: Counts, caplog: pytest.LogCaptureFixture
) -> None:
    settler, counts.fault = settling(30.0), ZeroDivisionError()
    settler.charge("acme", 5)
    await settler.close()
    assert [record.getMessage() for record in caplog.records] == [
        "the tokens or stream slots of acme could not be settled"
    ]
    counts.fault = None
    settler.charge("acme", 6)
    await settler.close()
    assert counts.asked[-1][1].draws[0].amount == 6
