"""The part that all wrappers share: an engine with the very atoms of the one inside, each run through one method."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.rows.backend import Durability
from antiphon_store.testing.atoms import ATOMS, Atom


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an atom. `run` makes it; `writes` says whether it may change something."""

    atom: str
    run: Callable[[], Awaitable[Any]]
    writes: Callable[[], bool]


class Wrapper(StoreEngine):
    """An engine around another one.

    What a wrapper does with a call is `around`, unless it has a method of its own for an operation; opening and closing
    are the inner engine's own."""

    def __init__(self, inner: StoreEngine) -> None:  # it has no rows of its own
        self._inner = inner

    @property
    def durability(self) -> Durability:
        return self._inner.durability

    async def open(self) -> None:
        await self._inner.open()

    async def close(self) -> None:
        await self._inner.close()

    async def around(self, call: Call) -> Any:
        """The answer to a call. To be overridden: run it, or do not."""
        return await call.run()


def _method(atom: Atom) -> Callable[..., Awaitable[Any]]:
    @wraps(atom.declaration)
    async def call(self: Wrapper, *arguments: Any, **options: Any) -> Any:
        run = partial(getattr(self._inner, atom.name), *arguments, **options)
        return await self.around(Call(atom.name, run, partial(atom.writes, arguments, options)))

    return call


for _atom in ATOMS.values():
    setattr(Wrapper, _atom.name, _method(_atom))
