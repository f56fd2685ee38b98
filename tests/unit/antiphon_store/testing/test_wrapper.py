from __future__ import annotations

import inspect
from typing import Any

import pytest

from antiphon_core.errors import ResponseNotFound, StoreUnavailable
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.service import StoreService
from antiphon_store.testing.calls import CALLS, RECORD, operation_of
from antiphon_store.testing.subject import draft
from antiphon_store.testing.wrapper import Call, Wrapper


class RecordingWrapper(Wrapper):
    def __init__(self, inner: StoreService) -> None:
        super().__init__(inner)
        self.seen: list[Call] = []

    async def around(self, call: Call) -> Any:
        self.seen.append(call)
        return await call.run()


@pytest.mark.parametrize("call", CALLS)
async def test_every_operation_goes_through_around(call: str) -> None:
    wrapper = RecordingWrapper(StoreService(MemoryRows()))
    with pytest.raises(StoreUnavailable):
        await CALLS[call](wrapper)
    assert [seen.operation for seen in wrapper.seen] == [operation_of(call)]


async def test_arguments_answers_and_errors_are_those_of_the_store_inside() -> None:
    wrapper = RecordingWrapper(StoreService(MemoryRows()))
    await wrapper.open()
    stamp = await wrapper.put("t", RECORD)
    assert (await wrapper.get("t", RECORD.id)).version == stamp.version
    with pytest.raises(ResponseNotFound):
        await wrapper.get("t", draft().id)
    await wrapper.close()


async def test_a_wrapper_without_overrides_changes_nothing() -> None:
    wrapper = Wrapper(StoreService(MemoryRows()))
    await wrapper.open()
    assert (await wrapper.put("t", RECORD)).version == 1
    assert wrapper.durability == "memory"


async def test_an_overridden_method_replaces_that_of_the_store() -> None:
    class Silent(Wrapper):
        async def ready(self) -> None:
            """Ignores the store."""

    await Silent(StoreService(MemoryRows())).ready()
    with pytest.raises(StoreUnavailable):
        await Wrapper(StoreService(MemoryRows())).ready()


def test_wrapper_methods_have_signature_and_docstring_of_the_store() -> None:
    wrapper = RecordingWrapper(StoreService(MemoryRows()))
    assert inspect.signature(Wrapper.put) == inspect.signature(StoreService.put)
    assert wrapper.put.__doc__ == StoreService.put.__doc__
