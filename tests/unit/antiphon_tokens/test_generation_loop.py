from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from threading import Event
from typing import Any

import pytest

from antiphon_tokens.generation import Facts, FinishReason, RequestError, Token
from antiphon_tokens.generation_loop import GenerationLoop, Step, Steps
from tests.support.waiting import WAIT_MAX_S

NOTHING = Facts()


class Played:
    """A listener that wants so many steps."""

    def __init__(self, wanted: int = 99) -> None:
        self.ids: list[int] = []
        self.facts: list[Facts] = []
        self.end: Any = None
        self.has_ended, self.has_begun = Event(), Event()
        self._wanted = wanted

    def on_tokens(self, tokens: Sequence[Token], facts: Facts) -> bool:
        self.ids += [token.id for token in tokens]
        self.facts.append(facts)
        self.has_begun.set()
        return len(self.ids) < self._wanted

    def on_end(self, finish: FinishReason) -> None:
        self.end = finish
        self.has_ended.set()

    def on_error(self, message: str, *, is_request: bool) -> None:
        self.end = (message, is_request)
        self.has_ended.set()


class Generated:
    """Steps that end as the test says, and note when they are closed."""

    def __init__(self, *ids: int, ending: FinishReason | Exception | None = None) -> None:
        self.is_closed = Event()
        self._ids = ids
        self._ending = ending

    async def steps(self) -> Steps:
        try:
            for number in self._ids:
                yield Step([Token(number)], NOTHING)
            if isinstance(self._ending, Exception):
                raise self._ending
            if self._ending is None:
                await asyncio.Event().wait()
            yield Step([], NOTHING, self._ending)
        finally:
            self.is_closed.set()


@pytest.fixture
def loop() -> Iterator[GenerationLoop]:
    made = GenerationLoop()
    yield made
    made.close()


def run(loop: GenerationLoop, generated: Generated, listener: Played) -> Played:
    loop.start(generated.steps(), listener)
    assert listener.has_ended.wait(WAIT_MAX_S)
    assert generated.is_closed.wait(WAIT_MAX_S)
    return listener


@pytest.mark.parametrize(
    ("ending", "end"),
    [
        (FinishReason.LENGTH, FinishReason.LENGTH),
        (RequestError("too long"), ("too long", True)),
        (KeyError("a"), ("the engine failed: KeyError('a')", False)),
    ],
)
def test_listener_gets_all_tokens_and_then_the_end(
    loop: GenerationLoop, ending: FinishReason | Exception, end: Any
) -> None:
    listener = run(loop, Generated(1, 2, ending=ending), Played())
    assert (listener.ids, listener.end) == ([1, 2], end)


def test_listener_that_wants_no_more_ends_the_generation(loop: GenerationLoop) -> None:
    listener = run(loop, Generated(1, 2, 3), Played(wanted=2))
    assert (listener.ids, listener.end) == ([1, 2], FinishReason.CANCELLED)


def test_cancellation_ends_a_generation_that_waits_and_no_other(loop: GenerationLoop) -> None:
    waiting, other = Generated(1), Generated(1)
    listener, beside = Played(), Played()
    loop.start(other.steps(), beside)
    loop.start(waiting.steps(), listener)
    assert listener.has_begun.wait(WAIT_MAX_S)
    loop.cancel(listener)
    assert listener.has_ended.wait(WAIT_MAX_S)
    assert waiting.is_closed.is_set()
    assert (listener.end, beside.end) == (FinishReason.CANCELLED, None)
    loop.cancel(listener)  # has no effect any more


def test_a_generation_that_is_cancelled_before_its_first_step_has_an_end(loop: GenerationLoop) -> None:
    listener = Played()

    async def start_and_cancel() -> None:
        loop.start(Generated(3).steps(), listener)
        loop.cancel(listener)  # both run in the next iteration of the loop

    loop.run(start_and_cancel())
    assert listener.has_ended.wait(WAIT_MAX_S)
    assert (listener.ids, listener.end) == ([], FinishReason.CANCELLED)


def test_close_ends_what_runs_with_an_error() -> None:
    loop, generated, listener = GenerationLoop(), Generated(1), Played()
    loop.start(generated.steps(), listener)
    assert listener.has_begun.wait(WAIT_MAX_S)
    loop.close()
    assert listener.end == ("the model is being unloaded", False)
    assert generated.is_closed.is_set()


def test_result_of_a_coroutine_is_returned(loop: GenerationLoop) -> None:
    async def answer() -> int:
        return 42

    assert loop.run(answer()) == 42
