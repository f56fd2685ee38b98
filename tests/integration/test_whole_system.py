"""The whole path with a real model, from HTTP over gRPC to a real Triton and back, in one process and in three."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import jinja2
import pytest
from tokenizers import Tokenizer

from antiphon.local_model import OUTPUT_TOKENS_DEFAULT
from antiphon_core import events
from antiphon_core.fold import fold
from antiphon_core.jsons import Object
from tests.support.http import Http, RetryingHttp
from tests.support.images import data_url, image_part, user
from tests.support.schema import validate_event, validate_response
from tests.support.system import System, up
from tests.support.volume import IS_NIGHTLY

QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is Paris."


@pytest.fixture
async def http(system: System) -> AsyncIterator[Http]:
    async with aiohttp.ClientSession() as session:
        yield RetryingHttp(session, system.url)


def model_directory_of(system: System) -> Path:
    profile = tomllib.loads((system.data / "profiles" / "model-0.toml").read_text())
    return Path(profile["directory"])


def prompt_tokens(model_directory: Path, messages: list[tuple[str, str]]) -> int:
    """The number of tokens of a conversation, by the model's own tokenizer and template."""
    config = json.loads((model_directory / "tokenizer_config.json").read_text())
    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(config["chat_template"])
    rendered = template.render(
        messages=[{"role": role, "content": text} for role, text in messages], add_generation_prompt=True
    )
    tokenizer = Tokenizer.from_file(str(model_directory / "tokenizer.json"))
    return len(tokenizer.encode(rendered, add_special_tokens=False).ids)


async def test_the_answer_is_the_expected_one_and_valid(http: Http, system: System) -> None:
    response = (await http.create(model=system.model, input=QUESTION, temperature=0)).json
    validate_response(response)
    assert response["output"][0]["content"][0]["text"] == ANSWER
    assert (response["status"], response["error"], response["incomplete_details"]) == ("completed", None, None)


# A summary up to its limit takes half a minute of CPU. By day a script repeats itself (test_compaction.py).
if IS_NIGHTLY:

    @pytest.mark.parametrize("attempt", range(8))  # one compaction in six was rejected
    async def test_a_compaction_by_a_model_that_repeats_itself_succeeds(up_system: System, attempt: int) -> None:
        talk = [{"role": "user", "content": "We launch on Tuesday."}, {"role": "assistant", "content": "On Tuesday."}]
        async with aiohttp.ClientSession() as session:
            http = RetryingHttp(session, up_system.url)
            answer = await http.post("/v1/responses/compact", {"model": up_system.model, "input": talk})
            assert answer.status == 200, answer.body
            kept, item = answer.json["output"]
            assert (kept["role"], item["type"]) == ("user", "compaction")
            assert item["summary"][0]["text"]
            more = [kept, item, {"role": "user", "content": "Go on."}]
            assert (await http.create(model=up_system.model, input=more, max_output_tokens=16)).status == 200


async def test_a_response_without_a_limit_has_the_default_max_output_tokens(http: Http, system: System) -> None:
    response = (await http.create(model=system.model, input=QUESTION, temperature=0)).json
    assert response["max_output_tokens"] == OUTPUT_TOKENS_DEFAULT


async def test_every_stream_event_is_valid_and_in_order(http: Http, system: System) -> None:
    answer = await http.create(model=system.model, input=QUESTION, temperature=0, stream=True)
    log = answer.events
    for event in log:
        validate_event(event)
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    kinds = [event["type"] for event in log if event["type"] != events.OUTPUT_TEXT_DELTA]
    assert kinds == [
        events.CREATED,
        events.IN_PROGRESS,
        events.OUTPUT_ITEM_ADDED,
        events.CONTENT_PART_ADDED,
        events.OUTPUT_TEXT_DONE,
        events.CONTENT_PART_DONE,
        events.OUTPUT_ITEM_DONE,
        events.COMPLETED,
    ]
    assert answer.body.endswith(b"data: [DONE]\n\n")


async def test_stream_record_and_json_agree(http: Http, system: System) -> None:
    log = (await http.create(model=system.model, input=QUESTION, temperature=0, stream=True)).events
    ended = log[-1]["response"]
    assert fold(log) == fold(log[:-1]) | {name: ended[name] for name in ("status", "completed_at", "usage")} == ended
    assert (await http.get(f"/v1/responses/{ended['id']}")).json == ended


async def test_a_chain_gives_the_model_the_exact_conversation(http: Http, system: System, up_system: System) -> None:
    model_directory = model_directory_of(up_system)
    said: list[tuple[str, str]] = []
    previous = None
    for question, expected in [(QUESTION, ANSWER), ("And of Italy?", "The capital of Italy is Rome.")]:
        said.append(("user", question))
        body = {"model": system.model, "input": question, "temperature": 0, "previous_response_id": previous}
        response = (await http.create(**body)).json
        text = response["output"][0]["content"][0]["text"]
        assert text == expected
        assert response["usage"]["input_tokens"] == prompt_tokens(model_directory, said)
        said.append(("assistant", text))
        previous = response["id"]


async def test_instructions_are_a_system_message_of_this_turn_only(
    http: Http, system: System, up_system: System
) -> None:
    model_directory = model_directory_of(up_system)
    ask: dict[str, Any] = {"model": system.model, "temperature": 0, "max_output_tokens": 8}
    first = (await http.create(**ask, input="Hello", instructions="Be kind.")).json
    told = [("system", "Be kind."), ("user", "Hello")]
    assert first["usage"]["input_tokens"] == prompt_tokens(model_directory, told)
    second = (await http.create(**ask, input="Again", previous_response_id=first["id"])).json
    said = [("user", "Hello"), ("assistant", first["output"][0]["content"][0]["text"]), ("user", "Again")]
    assert second["usage"]["input_tokens"] == prompt_tokens(model_directory, said)
    assert second["instructions"] is None


async def test_text_that_spells_control_tokens_stays_text(http: Http, system: System) -> None:
    ask: dict[str, Any] = {"model": system.model, "temperature": 0, "max_output_tokens": 4}
    plain = (await http.create(**ask, input="im_end")).json["usage"]["input_tokens"]
    spelled = (await http.create(**ask, input="<|im_end|>")).json["usage"]["input_tokens"]
    assert spelled > plain  # one control token would be shorter than the plain letters


async def test_a_file_is_read_and_an_image_for_a_blind_model_rejected(http: Http, system: System) -> None:
    file = {"type": "input_file", "filename": "a.txt", "file_data": data_url(b"word " * 200, "text/plain")}
    ask: dict[str, Any] = {"model": system.model, "temperature": 0, "max_output_tokens": 4}
    answer = await http.create(**ask, input=[user("What is it?", file, image_part())])
    assert (answer.status, answer.error["param"]) == (400, "input[0].content[2]")
    assert "sees no images" in answer.error["message"]
    read = (await http.create(**ask, input=[user("What is it?", file)])).json
    assert read["usage"]["input_tokens"] > 200
    items = (await http.get(f"/v1/responses/{read['id']}/input_items")).json["data"]
    assert items[0]["content"][1] == file
    after = (await http.create(**ask, input="And?", previous_response_id=read["id"])).json
    assert after["usage"]["input_tokens"] > read["usage"]["input_tokens"]


async def test_every_failure_is_an_envelope_and_never_a_500(http: Http, system: System) -> None:
    bodies: list[Object | bytes] = [
        b"{",
        b"\xff\xfe",
        {"model": system.model},
        {"model": system.model, "input": 42},
        {"model": system.model, "input": [{"type": "input_image"}]},
        {"model": "nobody", "input": "x"},
        {"model": system.model, "input": "x", "previous_response_id": "resp_" + "f" * 48},
        {"model": system.model, "input": "word " * 20_000},
    ]
    answers = [await http.post("/v1/responses", body) for body in bodies]
    for answer in answers:
        assert 400 <= answer.status < 500, answer.body
        assert set(answer.error) == {"message", "type", "param", "code"}
    assert answers[-1].error["code"] == "context_length_exceeded"


async def test_health_is_ready_and_models_are_listed(http: Http, system: System) -> None:
    assert (await http.get("/v1/health/live")).status == 200
    async with asyncio.timeout(60):  # a probe waits for each part for a limited time
        while (await http.get("/v1/health/ready")).json["status"] != "ready":
            await asyncio.sleep(0.1)
    assert [model["id"] for model in (await http.get("/v1/models")).json["data"]] == [system.model]


async def test_the_curl_line_of_the_banner_and_chains_after_a_restart_work(tmp_path: Path) -> None:
    with up(tmp_path) as system:
        line = system.commands["up"].wait_for(r"^  (curl .*)$")[1]
        first = json.loads(subprocess.check_output(shlex.split(line)))  # noqa: ASYNC221 - as a user would
        assert first["output"][0]["content"][0]["text"] == ANSWER
    with up(tmp_path) as system:
        async with aiohttp.ClientSession() as session:
            http = Http(session, system.url)
            body = {"input": "And of Italy?", "previous_response_id": first["id"], "temperature": 0}
            second = (await http.create(model=system.model, **body)).json
            assert second["output"][0]["content"][0]["text"] == "The capital of Italy is Rome."
            assert (await http.get(f"/v1/responses/{first['id']}")).json == first
