"""Programs that share a statement: which may, and what becomes of them when the server cannot run one."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
import pytest

from antiphon_core.errors import AntiphonError, InternalError, StoreUnavailable
from antiphon_store.backends.postgres.backend import _are_apart, blamed
from antiphon_store.backends.postgres.programs import Call, size_of
from antiphon_store.rows.model import Kind, Partition, Program, Put, Ref


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
    assert [str(each) for each in await blamed(server.run)(calls_of("abcd"))] == ["a", "b", "failed", "d"]


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailable("away"),
        refused_by_the_server(psycopg.errors.AdminShutdown("stopped")),
        refused_by_the_server(psycopg.OperationalError("lost")),
    ],
)
async def test_where_it_is_not_known_what_happened_nothing_is_run_again(error: AntiphonError) -> None:
    server = Server(error, failing="c")
    first, second, third = await blamed(server.run)(calls_of("abc"))
    assert type(first) is type(second) is type(third) is type(error)
    assert first is not second
    assert server.asked == ["abc"]


def test_programs_that_change_one_partition_are_kept_apart() -> None:
    first, *others = calls_of("aab")
    assert [_are_apart([first], each) for each in others] == [False, True]


def test_payloads_count_towards_the_limit_of_a_statement() -> None:
    program = Program(changes=[Put(Ref(Kind.JOB, "j"), {}, b"xx", b"x")])
    assert size_of(Call(Partition("t", "a"), program)) == 3
