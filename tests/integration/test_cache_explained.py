"""Clients are told why a prompt was not cached: in a route, and in the response in OpenAI's form."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from openai.types.responses.response import PromptCacheDiagnosticsCacheMiss
from pydantic import TypeAdapter

from antiphon_core.jsons import Object, dumps
from antiphon_core.ports.store import Record, Status
from antiphon_translator.diagnosis import cache_report
from antiphon_translator.engines.scripted import Emit, ScriptedEngine
from antiphon_translator.generation import EngineFacts, TokenChunk
from tests.support.in_process import System, running
from tests.support.lineages import MODELS
from tests.support.served_models import END_ID

INSTRUCTIONS = "You are a careful assistant, and answer in a few words. " * 4


@asynccontextmanager
async def system_with(*cached: int) -> AsyncIterator[System]:
    """A system whose engine reports these numbers of cached tokens, one after the other."""
    served = MODELS["smollm2"].load()
    written = served.tokenizer.encode("It is Paris.")
    script = [Emit(TokenChunk(written, placement="here", facts=EngineFacts(count))) for count in cached]
    engine = ScriptedEngine([])

    async def generate(request, deliver, flow):  # type: ignore[no-untyped-def]
        engine.script = [script.pop(0), Emit([END_ID])]
        await ScriptedEngine.generate(engine, request, deliver, flow)

    engine.generate = generate  # type: ignore[method-assign]
    async with running((served, engine), workers=1) as system:
        yield system


async def explained(system: System, response_id: str, query: str = "") -> Object:
    answer = await system.http.get(f"/v1/responses/{response_id}/cache{query}")
    assert answer.status == 200, answer.body
    found: Object = answer.json
    return found


async def test_route_tells_what_was_cached_and_compares_with_the_parent() -> None:
    async with system_with(0, 40, 0) as system:
        first = await system.create(input="Hi", instructions=INSTRUCTIONS)
        second = await system.create(input="Go on", instructions=INSTRUCTIONS, previous_response_id=first["id"])
        third = await system.create(input="Go on", instructions="Be rude.", previous_response_id=second["id"])
        report = await explained(system, second["id"], "?compare=parent")
        assert (report["object"], report["compared_id"]) == ("response.cache", first["id"])
        assert report["comparison"]["first_difference"] is None
        assert report["comparison"]["is_exact"]
        assert report["lost"] == {"unknown": report["comparison"]["reusable_tokens"] - 40} or report["lost"] == {
            "block": report["comparison"]["reusable_tokens"] - 40
        }
        alone = await explained(system, second["id"])
        assert (alone["cached_tokens"], alone["compared_id"], alone["comparison"]) == (40, None, None)
        changed = await explained(system, third["id"], f"?compare={second['id']}")
        found = changed["comparison"]["first_difference"]
        assert (found["cause"], found["path"]) == ("instructions", "instructions")
        assert (await explained(system, first["id"], "?compare=parent"))["comparison"] is None


async def test_response_has_the_diagnostics_that_its_request_asks_for() -> None:
    async with system_with(0, 60, 0, 0, 0, 0) as system:
        first = await system.create(input="Hi", instructions=INSTRUCTIONS)
        compare = {"prompt_cache_options": {"comparison_response_id": first["id"]}, "previous_response_id": first["id"]}
        hit = await system.create(input="Go on", instructions=INSTRUCTIONS, **compare)
        assert hit["prompt_cache_diagnostics"] == {"type": "cache_hit"}
        assert hit["prompt_cache_options"]["comparison_response_id"] == first["id"]
        async with system.http.stream(model="m", input="Go on", instructions="Be rude.", **compare) as events:
            missed = [event async for event in events][-1]["response"]
        found = TypeAdapter(PromptCacheDiagnosticsCacheMiss).validate_python(missed["prompt_cache_diagnostics"])
        assert (found.reason, found.comparison_reusable_tokens) == ("input_changed", 3)
        assert found.cache_missed_tokens > 0
        stored = (await system.http.get(f"/v1/responses/{missed['id']}")).json
        assert stored["prompt_cache_diagnostics"] == missed["prompt_cache_diagnostics"]
        queued = await system.create(input="Go on", instructions="Be rude.", background=True, **compare)
        events_of = await system.http.get(f"/v1/responses/{queued['id']}?stream=true")
        assert events_of.events[-1]["response"]["prompt_cache_diagnostics"] == missed["prompt_cache_diagnostics"]
        unknown = {"prompt_cache_options": {"comparison_response_id": "resp_unknown"}}
        alone = await system.create(input="Hi", **unknown)
        assert alone["prompt_cache_diagnostics"] == {"type": "comparison_response_not_found"}
        assert "prompt_cache_diagnostics" not in first
        long = Record("resp_" + 48 * "2", Status.COMPLETED, b"{}", dumps([{"id": "msg_1", "text": "x" * 9 * 2**20}]))
        await system.store.put("default", long)
        options = {"prompt_cache_options": {"comparison_response_id": long.id}}
        assert (await system.create(input="Hi", **options))["prompt_cache_diagnostics"] == {"type": "unavailable"}


async def test_response_completes_although_its_comparison_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with system_with(0, 0) as system:
        first = await system.create(input="Hi")
        monkeypatch.setattr(cache_report, "compare", lambda *_, **__: 1 / 0)
        compare = {"prompt_cache_options": {"comparison_response_id": first["id"]}}
        second = await system.create(input="Hi", **compare)
    assert (second["status"], second["prompt_cache_diagnostics"]) == ("completed", {"type": "unavailable"})
    (line,) = (each for each in caplog.records if each.levelname == "ERROR")
    assert line.getMessage() == f"the comparison of the prompts of {second['id']} and {first['id']} failed"


@pytest.mark.parametrize("compared", ["deleted", "foreign", "resp_unknown", "no id"])
async def test_response_that_cannot_be_read_is_rejected_by_the_name_of_the_parameter(compared: str) -> None:
    async with system_with(0, 0, 0, 0) as system:
        first = await system.create(input="Hi")
        second = await system.create(input="Go on", previous_response_id=first["id"])
        if compared == "deleted":
            await system.http.ask("DELETE", f"/v1/responses/{first['id']}", None)
            compared = first["id"]
        if compared == "foreign":
            compared = "resp_" + 48 * "1"
            await system.store.put("other", Record(compared, Status.COMPLETED, b"{}"))
            options = {"prompt_cache_options": {"comparison_response_id": compared}}
            found = (await system.create(input="Hi", **options))["prompt_cache_diagnostics"]
            assert found == {"type": "comparison_response_not_found"}
        answer = await system.http.get(f"/v1/responses/{second['id']}/cache?compare={compared}")
        assert (answer.status, answer.error["param"]) == (404, "compare")
        assert (await system.http.get(f"/v1/responses/{compared}/cache")).status == 404
