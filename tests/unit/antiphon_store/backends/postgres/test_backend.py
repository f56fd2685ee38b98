"""Programs that share a statement: their locks, and their outcomes when the server cannot run one."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import psycopg
import pytest

from antiphon_core.errors import AntiphonError, InternalError, StoreUnavailable
from antiphon_core.jsons import dumps, loads
from antiphon_store.backends.postgres import backend
from antiphon_store.backends.postgres.backend import PostgresRows, isolate
from antiphon_store.backends.postgres.programs import Call, size_of, write_params
from antiphon_store.rows.model import (
    Condition,
    Delete,
    DeleteBelow,
    Fewer,
    File,
    Get,
    Grow,
    Guard,
    Index,
    Kind,
    Partition,
    Program,
    Put,
    Ref,
    Row,
    Set,
    Value,
)
from antiphon_store.rows.stored_rows import RowReader
from antiphon_store.testing.subject import draft
from tests.support.rows import node

NODE = node(draft())


class Server:
    """Answers each program with the tree of its partition; `failing` is a tree that makes a statement fail."""

    def __init__(self, error: AntiphonError, failing: str) -> None:
        self.error = error
        self.failing = failing
        self.asked: list[str] = []

    async def run(self, calls: Sequence[Call]) -> Sequence[str]:
        self.asked.append("".join(call.partition.tree for call in calls))
        if self.failing in self.asked[-1]:
            raise self.error
        return list(self.asked[-1])


def calls_of(trees: str) -> list[Call]:
    return [Call(Partition("t", each), Program()) for each in trees]


def refused_by_the_server(error: psycopg.Error) -> AntiphonError:
    failure = InternalError("failed")
    failure.__cause__ = error
    return failure


async def test_a_program_that_the_server_cannot_run_fails_alone() -> None:
    server = Server(refused_by_the_server(psycopg.errors.QueryCanceled("slow")), failing="c")
    assert [str(each) for each in await isolate(server.run)(calls_of("abcd"))] == ["a", "b", "failed", "d"]


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailable("away"),
        refused_by_the_server(psycopg.errors.AdminShutdown("stopped")),
        refused_by_the_server(psycopg.OperationalError("lost")),
    ],
)
async def test_a_statement_with_an_unknown_outcome_is_not_retried(error: AntiphonError) -> None:
    server = Server(error, failing="c")
    first, second, third = await isolate(server.run)(calls_of("abc"))
    assert type(first) is type(second) is type(third) is type(error)
    assert first is not second
    assert server.asked == ["abc"]


def locks_of(*programs: Program) -> list[list[object]]:
    locks: list[list[object]] = loads(write_params([Call(Partition("t", "b"), each) for each in programs])["locks"])
    return locks


def test_programs_of_one_statement_lock_their_rows_in_one_order() -> None:
    guarded = Program([Guard(Ref(Kind.SESSION, "s"), Condition.PRESENT)], [Set(Ref(Kind.JOB, "j"), {})])
    writing = Program(changes=[Set(Ref(Kind.SESSION, "s"), {})])
    assert locks_of(guarded) == [["t/b", False], ["t/b/job/j", True], ["t/b/session/s", False]]
    for programs in ((guarded, writing), (writing, guarded)):
        assert locks_of(*programs) == [["t/b", False], ["t/b/job/j", True], ["t/b/session/s", True]]


@pytest.mark.parametrize(
    "program",
    [
        Program(changes=[Grow("resp", None, {})]),
        Program(changes=[Delete(Ref(Kind.JOB, "j"))]),
        Program(changes=[DeleteBelow(Kind.BATCH, "log/")]),
        Program([Fewer(Index.MADE, "s", 1)], [Set(Ref(Kind.JOB, "j"), {})]),
        Program(changes=[File(Index.ENDS, "", "job/j")]),
        Program([Guard(Ref(Kind.JOB, "j"), Condition.PRESENT)], reads=[Get(Ref(Kind.JOB, "j"))]),
    ],
)
def test_a_program_that_needs_more_than_row_locks_locks_its_tree_exclusively(program: Program) -> None:
    shared = Program(changes=[Set(Ref(Kind.SESSION, "s"), {})])
    assert locks_of(shared, program)[0] == locks_of(program, shared)[0] == ["t/b", True]


def test_payloads_count_towards_the_limit_of_a_statement() -> None:
    program = Program(changes=[Put(Ref(Kind.JOB, "j"), {}, b"xx", b"x")])
    assert size_of(Call(Partition("t", "a"), program)) == 3


@pytest.mark.parametrize(("count", "is_inline"), [(1, True), (20_000, False)])
async def test_nodes_of_a_large_tree_are_parsed_outside_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, count: int, is_inline: bool
) -> None:
    rows = PostgresRows("postgresql://localhost/none")
    threads: set[int] = set()

    async def answer(_query: str, _parameters: object) -> list[object]:
        return [(5, f"n{number}", dumps(NODE.fields).decode()) for number in range(count)]

    class Spied(RowReader[str]):
        def nodes(self, ids: Sequence[str], texts: Sequence[str]) -> Sequence[Mapping[str, Value]]:
            threads.add(threading.get_ident())
            return super().nodes(ids, texts)

    monkeypatch.setattr(rows, "_run", answer)
    monkeypatch.setattr(backend, "READER", Spied(loads, lambda texts: loads(f"[{','.join(texts)}]")))
    now_ms, found = await rows.subtree(Partition("t", "tree"), ["n0"], max_nodes=count)
    assert (now_ms, len(found), found[0].row) == (5, count, Row(NODE.fields))
    assert (threading.get_ident() in threads) is is_inline
    assert len(threads) == 1
