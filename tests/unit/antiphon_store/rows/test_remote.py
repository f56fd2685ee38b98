"""Running a decision against rows: reads, assumptions, retries and their limit."""

from __future__ import annotations

import asyncio

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import InternalError, NotFound, ResponseNotFound, StoreUnavailable
from antiphon_store.rows.model import (
    Add,
    Applied,
    Chain,
    ChainRows,
    Condition,
    Get,
    Kind,
    Now,
    Partition,
    Payload,
    Program,
    Put,
    Ref,
    Set,
)
from antiphon_store.rows.remote import RemoteBackend
from antiphon_store.rows.view import Finish, View
from tests.support.rows import SpiedRows, guards_on

HERE = Partition("t", "tree")
ONE, TWO = Ref(Kind.SESSION, "one"), Ref(Kind.SESSION, "two")


@pytest.fixture
async def rows(clock: ManualClock) -> SpiedRows:
    rows = SpiedRows(clock)
    await rows.open()
    await rows.transact(HERE, Program(changes=[Put(ONE, {"n": 1}, b"items", b"body"), Put(TWO, {"n": 2})]))
    rows.forget_calls()
    return rows


def add(view: View) -> Finish[int]:
    """Adds one to a number, which the decision first assumes to be 7."""
    if not view.test(*ONE, Condition.IS, "n", 7):
        row = view.need(*ONE)
        assert row is not None
        view.set(*ONE, n=row.fields["n"] + 1)
    return view.answer_from(lambda row: int(row.fields["n"]), Get(ONE))


async def test_a_decision_that_assumed_right_takes_one_program(rows: SpiedRows) -> None:
    def read(view: View) -> Finish[object]:
        assert view.test(*ONE, Condition.IS, "n", 1)
        return view.answer_from(lambda row: row.items, Get(ONE, Payload.ALL))

    assert await rows.decide(HERE, read) == b"items"
    assert rows.calls == ["transact"]


async def test_rows_of_failed_guards_are_used_without_another_read(rows: SpiedRows) -> None:
    assert await rows.decide(HERE, add) == 2
    (_, first), (_, second) = rows.programs
    assert guards_on(first, Kind.SESSION) == [(Condition.IS, "n", 7)]
    assert guards_on(second, Kind.SESSION) == [(Condition.IS, "v", 1)]


async def test_unknown_rows_are_fetched_with_payloads_and_the_decision_begins_again(rows: SpiedRows) -> None:
    seen = []

    def look(view: View) -> Finish[int]:
        seen.append(view.now_ms)
        one, two = view.need_all(ONE, TWO)
        assert one is not None
        assert two is not None
        assert (one.items, one.body) == (b"items", b"body")
        total = one.fields["n"] + two.fields["n"]
        return lambda _answers: total

    assert await rows.decide(HERE, look) == 3
    assert rows.calls == ["transact"]  # rows of one read need no confirmation
    assert [len(program.reads) for _, program in rows.programs] == [2]
    assert seen == [0, ManualClock().now_ms()]


async def test_an_error_about_known_rows_is_raised_at_once(rows: SpiedRows) -> None:
    def refuse(view: View) -> Finish[None]:
        view.need(*ONE)
        raise NotFound("nothing")

    with pytest.raises(NotFound):
        await rows.decide(HERE, refuse)
    assert rows.calls == ["transact"]


async def test_an_error_after_assumptions_is_raised_only_after_reading_the_assumed_rows(rows: SpiedRows) -> None:
    """The error about the second row is raised first, but the error about the first row is the right one."""

    def decide(view: View) -> Finish[None]:
        if not view.test(*ONE, Condition.IS, "n", 7):
            raise ResponseNotFound.of("one")
        raise NotFound("two")

    with pytest.raises(ResponseNotFound):
        await rows.decide(HERE, decide)
    ((_, fetched),) = rows.programs
    assert [each.ref for each in fetched.reads if isinstance(each, Get)] == [ONE]


async def test_known_rows_are_read_again_with_the_assumed_ones(rows: SpiedRows) -> None:
    def decide(view: View) -> Finish[None]:
        two = view.need(*TWO)
        if view.test(*ONE, Condition.IS, "n", 1) and two is not None and two.fields["n"] == 2:
            raise NotFound("both")
        return lambda _answers: None

    async def change_two(_partition: Partition, _program: Program) -> None:
        rows.after_transact = None
        await rows.rows.transact(HERE, Program(changes=[Put(TWO, {"n": 3})]))

    rows.after_transact = change_two
    await rows.decide(HERE, decide)
    assert {each.ref for each in rows.programs[1][1].reads if isinstance(each, Get)} == {ONE, TWO}


async def test_a_lost_race_is_decided_anew(rows: SpiedRows) -> None:
    async def meddle(_partition: Partition, program: Program) -> None:
        if program.changes:
            rows.before_transact = None
            await rows.rows.transact(HERE, Program(changes=[Put(ONE, {"n": 10, "v": 7})]))

    rows.before_transact = meddle
    assert await rows.decide(HERE, add) == 11


async def test_a_decision_that_keeps_losing_races_fails_after_bounded_attempts(
    rows: SpiedRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[float] = []

    async def pause(delay: float) -> None:
        paused.append(delay)

    async def meddle(_partition: Partition, _program: Program) -> None:
        await rows.rows.transact(HERE, Program(changes=[Set(ONE, {"n": Add(1), "at": Now()})]))

    monkeypatch.setattr(asyncio, "sleep", pause)
    rows.before_transact = meddle
    with pytest.raises(StoreUnavailable):
        await rows.decide(HERE, add)
    assert 10 <= len(rows.calls) <= 1000
    assert paused  # later attempts wait
    assert len(paused) < len(rows.calls)  # the first attempts do not wait


async def test_an_error_of_the_backend_is_not_retried(rows: SpiedRows) -> None:
    async def fail(_partition: Partition, _program: Program) -> None:
        raise StoreUnavailable("down")

    rows.before_transact = fail
    with pytest.raises(StoreUnavailable, match="down"):
        await rows.decide(HERE, add)
    assert rows.calls == ["transact"]


async def test_a_decision_without_rows_takes_at_most_one_call(rows: SpiedRows) -> None:
    def idle(_view: View) -> Finish[str]:
        return lambda _answers: "idle"

    assert await rows.decide(HERE, idle) == "idle"
    assert len(rows.calls) <= 1


@pytest.mark.parametrize("payload", [Payload.ITEMS, Payload.ALL])
async def test_a_chain_with_a_missing_response_is_an_error_that_names_its_last_one(payload: Payload) -> None:
    chain = ChainRows(["a", "c"], [{"depth": 0}, {"depth": 2}], [b"", b""], [b"", b""])

    class Damaged(RemoteBackend):
        async def transact(self, _partition: Partition, _program: Program) -> Applied:
            return Applied(1, [chain])

    decide = lambda view: view.answer_from(list, Chain("c", payload, 10, 10))  # noqa: E731
    with pytest.raises(InternalError, match="'c' is damaged"):
        await Damaged().decide(Partition("t", "tree"), decide, only_reads=True)
