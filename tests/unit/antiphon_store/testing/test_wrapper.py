from __future__ import annotations

import inspect
from typing import Any

import pytest

from antiphon_core.errors import ResponseNotFound, StoreUnavailable
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.opening import open_backend
from antiphon_store.testing.calls import CALLS, RECORD, atom_of
from antiphon_store.testing.subject import draft
from antiphon_store.testing.wrapper import Call, Wrapper
from antiphon_store.values import Write


class Seeing(Wrapper):
    def __init__(self, inner: StoreEngine) -> None:
        super().__init__(inner)
        self.seen: list[Call] = []

    async def around(self, call: Call) -> Any:
        self.seen.append(call)
        return await call.run()


@pytest.mark.parametrize("call", CALLS)
async def test_every_atom_goes_through_one_method(call: str) -> None:
    wrapper = Seeing(open_backend("memory://"))
    with pytest.raises(StoreUnavailable):
        await CALLS[call](wrapper)
    assert [seen.atom for seen in wrapper.seen] == [atom_of(call)]


async def test_arguments_answers_and_errors_are_the_engines() -> None:
    wrapper = Seeing(open_backend("memory://"))
    await wrapper.open()
    stamp = await wrapper.put("t", Write(RECORD))
    assert (await wrapper.fetch("t", RECORD.id)).version == stamp.version
    with pytest.raises(ResponseNotFound):
        await wrapper.fetch("t", draft().id)
    await wrapper.close()


async def test_without_more_a_wrapper_changes_nothing() -> None:
    wrapper = Wrapper(open_backend("memory://"))
    await wrapper.open()
    assert (await wrapper.put("t", Write(RECORD))).version == 1
    assert wrapper.durability == "memory"


async def test_a_method_of_its_own_goes_first() -> None:
    class Silent(Wrapper):
        async def ready(self) -> None:
            """Whatever the engine says."""

    await Silent(open_backend("memory://")).ready()
    with pytest.raises(StoreUnavailable):
        await Wrapper(open_backend("memory://")).ready()


def test_methods_are_those_of_the_engine() -> None:
    wrapper = Seeing(open_backend("memory://"))
    assert inspect.signature(Wrapper.put) == inspect.signature(StoreEngine.put)
    assert wrapper.put.__doc__ == StoreEngine.put.__doc__
