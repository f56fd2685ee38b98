from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import NotFound
from antiphon_core.jsons import dumps, loads
from antiphon_core.request.body import CreateRequest
from antiphon_edge.turns import turn_input
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.service import StoreService

ID = "pmpt_" + "0" * 48
CONTENT = {"instructions": "Speak {{language}}.", "input": [{"role": "developer", "content": "Be brief."}]}
HI = {"role": "user", "content": "Hi"}


@pytest.fixture
async def store() -> StoreService:
    backend = MemoryRows(ManualClock())
    await backend.open()
    store = StoreService(backend)
    await store.put_prompt("t", ID, 1, dumps(CONTENT))
    return store


async def filled_in(store: StoreService, *, given: Sequence[Any] = (HI,), **members: Any) -> Any:
    prompt = {"id": ID, "variables": {"language": "Latin"}} | members.pop("prompt", {})
    request = CreateRequest.parse(dumps({"model": "m", "input": list(given), "prompt": prompt} | members))
    assert request.prompt is not None
    found = await turn_input.read_prompt(store, "t", request.prompt)
    return turn_input.fill_in_prompt(request.as_json(), found, request.prompt, list(given))


async def test_the_messages_of_a_prompt_come_before_the_input(store: StoreService) -> None:
    parameters, given = await filled_in(store)
    assert given == [{"role": "developer", "content": "Be brief."}, HI]
    assert parameters["instructions"] == "Speak Latin."


async def test_turn_names_the_prompt_version_that_it_used(store: StoreService) -> None:
    await store.put_prompt("t", ID, 2, dumps({"instructions": "{{language}}"}))
    parameters, given = await filled_in(store)
    assert parameters["prompt"] == {"id": ID, "version": "2", "variables": {"language": "Latin"}}
    assert (parameters["instructions"], given) == ("Latin", [HI])
    assert (await filled_in(store, prompt={"version": "1"}))[0]["instructions"] == "Speak Latin."


async def test_instructions_of_the_request_replace_those_of_the_prompt(store: StoreService) -> None:
    assert (await filled_in(store, instructions="Own."))[0]["instructions"] == "Own."


@pytest.mark.parametrize(
    ("prompt", "field"),
    [
        ({"id": "pmpt_" + "1" * 48}, "prompt.id"),
        ({"id": "x"}, "prompt.id"),
        ({"version": "2"}, "prompt.version"),
        ({"version": "999999999"}, "prompt.version"),
    ],
)
async def test_unknown_prompt_or_version_is_rejected_by_name(store: StoreService, prompt: Any, field: str) -> None:
    with pytest.raises(NotFound) as raised:
        await filled_in(store, prompt=prompt)
    assert raised.value.field == field


async def test_work_on_a_prompt_grows_with_each_use_of_a_value(store: StoreService) -> None:
    await store.put_prompt("t", ID, 2, dumps({"instructions": "{{language}}" * 1_000}))
    prompt = {"id": ID, "variables": {"language": "x" * 1_000}}
    named = CreateRequest.parse(dumps({"model": "m", "prompt": prompt})).prompt
    assert named is not None
    assert turn_input.prompt_work_bytes(await turn_input.read_prompt(store, "t", named), named) > 1_000_000


CARRIED = b'[{"type":"message","role":"user","content":"before"}]'


def test_carried_history_comes_before_the_stored_history() -> None:
    history, given = turn_input.history_and_input(CARRIED, b"[1]", [HI], is_stored=False)
    assert loads(history) == [*loads(CARRIED), 1]
    assert given == [HI]


def test_stored_turn_takes_the_carried_history_into_its_input() -> None:
    history, joined = turn_input.history_and_input(CARRIED, b"[]", [HI], is_stored=True)
    assert history == b"[]"
    assert joined == [*loads(CARRIED), HI]
