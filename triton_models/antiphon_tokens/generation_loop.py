"""Runs the generations of an engine with an asyncio interface: tasks of an event loop on a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from antiphon_tokens.engine import Capabilities, Listener
from antiphon_tokens.generation import Facts, FinishReason, RequestError, Token

Result = TypeVar("Result")
UNLOADED = "the model is being unloaded"


@dataclass(frozen=True)
class Step:
    """The report of an engine at one time. `finish`: the generation has ended with these tokens."""

    tokens: Sequence[Token]
    facts: Facts
    finish: FinishReason | None = None


Steps = AsyncGenerator[Step, None]
"""The steps of one generation. To close it ends the generation in the engine."""


class GenerationLoop:
    """The event loop of one engine. All methods can be called from any other thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[Listener, asyncio.Task[None]] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine-loop", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Runs a coroutine to its end, and returns its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def start(self, steps: Steps, listener: Listener) -> None:
        """Passes the steps of a generation to a listener, until one of both ends."""
        self._loop.call_soon_threadsafe(self._start, steps, listener)

    def cancel(self, listener: Listener) -> None:
        self._loop.call_soon_threadsafe(self._cancel, listener)

    def close(self) -> None:
        """Ends all generations with an error, then the thread."""
        self.run(self._end_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _start(self, steps: Steps, listener: Listener) -> None:
        task = self._tasks[listener] = self._loop.create_task(_pass_on(steps, listener))
        task.add_done_callback(partial(self._on_done, listener))

    def _on_done(self, listener: Listener, task: "asyncio.Task[None]") -> None:
        del self._tasks[listener]
        if task.cancelled():  # before its first step, so `_pass_on` could not tell the listener
            listener.on_end(FinishReason.CANCELLED)

    def _cancel(self, listener: Listener) -> None:
        if listener in self._tasks:
            self._tasks[listener].cancel()

    async def _end_all(self) -> None:
        for task in self._tasks.values():
            task.cancel(UNLOADED)
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


class LoopEngine:
    """The part of an engine that is the same for all that run on a GenerationLoop. A subclass has `submit`. `llm` is
    the library's object, which has a `shutdown`."""

    def __init__(self, llm: Any, loop: GenerationLoop, capabilities: Capabilities) -> None:
        self._llm = llm
        self._loop = loop
        self._capabilities = capabilities

    def cancel(self, listener: Listener) -> None:
        self._loop.cancel(listener)

    def capabilities(self) -> Capabilities:
        return self._capabilities

    def close(self) -> None:
        self._loop.close()
        self._llm.shutdown()


async def _pass_on(steps: Steps, listener: Listener) -> None:
    """Calls the listener for each step, and for the end. A cancellation ends the generation, and not in an error."""
    try:
        finish = await _last(steps, listener)
    except asyncio.CancelledError as error:
        if error.args == (UNLOADED,):
            listener.on_error(UNLOADED, is_request=False)
        else:
            listener.on_end(FinishReason.CANCELLED)
    except RequestError as error:
        listener.on_error(str(error), is_request=True)
    except Exception as error:  # noqa: BLE001 - of any kind; the other generations go on
        listener.on_error(f"the engine failed: {error!r}", is_request=False)
    else:
        listener.on_end(finish)


async def _last(steps: Steps, listener: Listener) -> FinishReason:
    async with aclosing(steps):
        async for step in steps:
            if step.tokens and not listener.on_tokens(step.tokens, step.facts):
                return FinishReason.CANCELLED
            if step.finish is not None:
                return step.finish
    raise RuntimeError("the engine ended a generation without a reason")
