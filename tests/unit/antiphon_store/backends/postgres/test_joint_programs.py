from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from antiphon_core.errors import AntiphonError, InternalError, StoreUnavailable
from antiphon_store.backends.postgres.joint_programs import (
    AT_ONCE_MAX,
    TOGETHER_BYTES_MAX,
    TOGETHER_MAX,
    JointPrograms,
)
from antiphon_store.backends.postgres.programs import Call
from antiphon_store.rows.model import Kind, Partition, Program, Put, Ref


class Server:
    """Answers each program with the tree of its partition. `is_open` holds the answers back, `failing` are trees that
    make a statement fail."""

    def __init__(self, error: AntiphonError | None = None, failing: Sequence[str] = ()) -> None:
        self.error = error
        self.failing = failing
        self.asked: list[list[str]] = []
        self.is_open = asyncio.Event()

    async def run(self, calls: Sequence[Call]) -> Sequence[str]:
        trees = [call.partition.tree for call in calls]
        self.asked.append(trees)
        await self.is_open.wait()
        if self.error is not None and any(each in self.failing for each in trees):
            raise self.error
        return trees


def refused_by_the_server(error: psycopg.Error) -> AntiphonError:
    failure = InternalError("failed")
    failure.__cause__ = error
    return failure


async def outcomes_of(
    server: Server, joint: JointPrograms[str], trees: Sequence[str], program: Program | None = None
) -> list[Any]:
    """Of programs at once; the first has no company yet and goes by itself."""
    asking = asyncio.gather(
        *(joint.run(Partition("t", each), program or Program()) for each in trees), return_exceptions=True
    )
    for _ in range(3):
        await asyncio.sleep(0)
    server.is_open.set()
    return await asking


async def test_one_alone_does_not_wait() -> None:
    server = Server()
    server.is_open.set()
    joint = JointPrograms(server.run)
    assert [await joint.run(Partition("t", each), Program()) for each in "ab"] == ["a", "b"]
    assert server.asked == [["a"], ["b"]]


async def test_what_waits_goes_together_and_each_gets_its_answer() -> None:
    server = Server()
    assert await outcomes_of(server, JointPrograms(server.run), list("abcda")) == list("abcda")
    assert server.asked == [["a"], list("bcda")]


async def test_those_of_one_partition_are_kept_apart_and_others_ordered() -> None:
    server = Server()
    assert await outcomes_of(server, JointPrograms(server.run, are_apart=True), list("xcbac")) == list("xcbac")
    assert server.asked == [["x"], list("abc"), ["c"]]


@pytest.mark.parametrize(("size_bytes", "most"), [(0, TOGETHER_MAX), (TOGETHER_BYTES_MAX // 2, 2)])
async def test_a_statement_has_limits(size_bytes: int, most: int) -> None:
    server = Server()
    program = Program(changes=[Put(Ref(Kind.JOB, "j"), {}, b"x" * size_bytes)])
    trees = [str(number) for number in range(1 + (AT_ONCE_MAX + 1) * most)]
    assert await outcomes_of(server, JointPrograms(server.run), trees, program) == trees
    assert [len(each) for each in server.asked] == [1] + [most] * (AT_ONCE_MAX + 1)


async def test_a_program_that_the_server_cannot_run_fails_alone() -> None:
    server = Server(refused_by_the_server(psycopg.errors.QueryCanceled("slow")), failing="c")
    found = await outcomes_of(server, JointPrograms(server.run), list("abcd"))
    assert [str(each) for each in found] == ["a", "b", "failed", "d"]


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
    _, second, third = await outcomes_of(server, JointPrograms(server.run), list("abc"))
    assert type(second) is type(third) is type(error)
    assert second is not third
    assert len(server.asked) == 2


async def test_callers_are_cancelled_with_the_run() -> None:
    class Stopped(Server):
        async def run(self, calls: Sequence[Call]) -> Sequence[str]:
            await super().run(calls)
            raise asyncio.CancelledError

    server = Stopped()
    found = await outcomes_of(server, JointPrograms(server.run), list("abc"))
    assert [type(each) for each in found] == [asyncio.CancelledError] * 3


async def test_a_program_runs_though_its_caller_has_gone_and_settling_waits_for_it() -> None:
    server = Server()
    joint = JointPrograms(server.run)
    first, second = (asyncio.create_task(joint.run(Partition("t", each), Program())) for each in "ab")
    for _ in range(3):
        await asyncio.sleep(0)
    second.cancel()
    settling = asyncio.create_task(joint.settle())
    await asyncio.sleep(0)
    assert not settling.done()
    server.is_open.set()
    await settling
    assert await first == "a"
    assert server.asked == [["a"], ["b"]]
