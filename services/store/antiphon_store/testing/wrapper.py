"""The base of store wrappers: every operation of the inner store is run through one method, `around`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

from antiphon_core.ports.event_logs import EventBatch
from antiphon_store.rows.backend import Durability
from antiphon_store.service import StoreService
from antiphon_store.testing.operations import OPERATIONS, Operation


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an operation, or the wait for one batch of a stream. `run` makes the call; `writes`: it may write."""

    operation: str
    run: Callable[[], Awaitable[Any]]
    writes: Callable[[], bool]


class Wrapper(StoreService):
    """A store around another one. Override `around`, or single operations. Opening and closing are passed on."""

    def __init__(self, inner: StoreService) -> None:  # without super: it has no rows
        self._inner = inner

    @property
    def durability(self) -> Durability:
        return self._inner.durability

    async def open(self) -> None:
        await self._inner.open()

    async def close(self) -> None:
        await self._inner.close()

    def end_waits(self) -> None:
        self._inner.end_waits()

    async def around(self, call: Call) -> Any:
        """Answers a call. An override may run the call or not."""
        return await call.run()

    async def read_events(
        self, tenant: str, response_id: str, *, after: int | None = None, follow: bool = False
    ) -> AsyncGenerator[EventBatch, None]:
        async with aclosing(self._inner.read_events(tenant, response_id, after=after, follow=follow)) as reading:
            call = Call("read_events", lambda: anext(reading, None), lambda: False)
            while (batch := await self.around(call)) is not None:
                yield batch


def _method(operation: Operation) -> Callable[..., Awaitable[Any]]:
    @wraps(operation.declaration)
    async def call(self: Wrapper, *arguments: Any, **options: Any) -> Any:
        run = partial(getattr(self._inner, operation.name), *arguments, **options)
        return await self.around(Call(operation.name, run, partial(operation.writes, arguments, options)))

    return call


for _operation in OPERATIONS.values():
    if _operation.name != "read_events":
        setattr(Wrapper, _operation.name, _method(_operation))
