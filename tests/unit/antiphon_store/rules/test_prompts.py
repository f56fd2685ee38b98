from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import InvalidRequest, TooLarge
from antiphon_core.limits import PROMPT_CONTENT_BYTES_MAX, PROMPT_VERSIONS_ITEMS_MAX
from antiphon_store.arguments import CHECKS
from antiphon_store.backends.registry import row_backend
from antiphon_store.rules import prompts as rules
from antiphon_store.service import StoreService


@pytest.mark.parametrize("prompt_id", ["", "pmpt_1", "conv_" + "0" * 48, "pmpt_" + "A" * 48])
def test_an_id_is_one_of_a_prompt(prompt_id: str) -> None:
    rules.check_prompt_id("pmpt_" + "0" * 48)
    with pytest.raises(InvalidRequest) as raised:
        rules.check_prompt_id(prompt_id)
    assert raised.value.field == "id"


@pytest.mark.parametrize("version", [0, -1, PROMPT_VERSIONS_ITEMS_MAX + 1])
def test_versions_are_counted_from_one(version: int) -> None:
    CHECKS["version"](PROMPT_VERSIONS_ITEMS_MAX, "version")
    with pytest.raises(InvalidRequest) as raised:
        CHECKS["version"](version, "version")
    assert raised.value.field == "version"


def test_a_content_is_there_and_bounded() -> None:
    rules.check_content(b" " * PROMPT_CONTENT_BYTES_MAX)
    with pytest.raises(InvalidRequest):
        rules.check_content(b"")
    with pytest.raises(TooLarge):
        rules.check_content(b" " * (PROMPT_CONTENT_BYTES_MAX + 1))


async def test_every_call_looks_at_its_arguments(clock: ManualClock) -> None:
    engine = row_backend("memory://", clock=clock)
    await engine.open()
    store = StoreService(engine)
    prompt_id = "pmpt_" + "0" * 48
    assert (await store.put_prompt("t", prompt_id, 1, b"{}")).content == b"{}"
    for call in (
        store.put_prompt("t", "x", 1, b"{}"),
        store.get_prompt("t", prompt_id, version=0),
        store.list_prompts(""),
        store.delete_prompt("t", "x"),
    ):
        with pytest.raises(InvalidRequest):
            await call
