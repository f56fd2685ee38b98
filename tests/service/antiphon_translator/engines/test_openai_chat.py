from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.errors import (
    ContextLengthExceeded,
    EngineFault,
    EngineMisconfigured,
    EngineOverloaded,
    EngineTimeout,
    EngineUnavailable,
    InvalidRequest,
)
from antiphon_core.flow import Flow
from antiphon_core.telemetry import correlation
from antiphon_core.telemetry.correlation import Correlation
from antiphon_core.telemetry.trace_context import TraceContext
from antiphon_translator.engines.openai_chat import OpenAIChatEngine
from antiphon_translator.engines.watched import WatchedEngine
from antiphon_translator.generation import (
    ChatChunk,
    ChatPrompt,
    EngineChunk,
    FinishReason,
    GenerationRequest,
    ReportedUsage,
    Sampling,
)
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, Reasoning, Text
from antiphon_translator.placement import PlacementHint, placement_of
from tests.support import pushed
from tests.support.chunks import only, usage_in
from tests.support.engine_plays import Ending
from tests.support.fake_chat import USAGE, FakeChat, delta, ending, event, fake_chat
from tests.support.waiting import WAIT_MAX_S

REQUEST = GenerationRequest(request_id="r", max_tokens=40, prompt=ChatPrompt([{"role": "user", "content": "Hi"}]))


@pytest.fixture
async def fake() -> AsyncIterator[FakeChat]:
    async with fake_chat() as running:
        yield running


@pytest.fixture
def profile(fake: FakeChat, tmp_path: Path) -> ModelProfile:
    """Long timeouts, so that none ends a test. Tests of a timeout shorten it."""
    return ModelProfile(
        name="m",
        directory=tmp_path,
        endpoint=fake.endpoint + "/",
        first_token_timeout_s=2 * WAIT_MAX_S,
        token_timeout_s=2 * WAIT_MAX_S,
        probe_timeout_s=WAIT_MAX_S,
    )


@pytest.fixture
async def engine(profile: ModelProfile) -> AsyncIterator[OpenAIChatEngine]:
    made = OpenAIChatEngine(profile)
    yield made
    await made.close()


async def chunks_of(engine: OpenAIChatEngine, request: GenerationRequest = REQUEST) -> list[EngineChunk]:
    async with aclosing(pushed.chunks(engine, request)) as batches:
        return [chunk async for batch in batches for chunk in batch]


async def test_stream_is_read_with_text_finish_reason_and_usage(fake: FakeChat, engine: OpenAIChatEngine) -> None:
    fake.script = [delta(content="Pa"), b": still here\n\n", delta(content="ris"), *ending()]
    chunks = await chunks_of(engine)
    assert [segment for chunk in only(ChatChunk, chunks) for segment in chunk.segments] == [Text("Pa"), Text("ris")]
    assert (chunks[-1].finish, usage_in(chunks[-1])) == (FinishReason.STOP, ReportedUsage(4, 9))
    (asked,) = fake.requests
    assert (asked["model"], asked["messages"]) == ("m", REQUEST.prompt_as(ChatPrompt).messages)


async def test_configured_model_name_and_current_api_key_are_sent(
    fake: FakeChat, profile: ModelProfile, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    engine = OpenAIChatEngine(replace(profile, chat_model="meta/m", api_key_file=key))
    with pytest.raises(EngineMisconfigured, match="API key of model 'm' is unreadable"):
        await engine.ready()
    for text in ("one\n", "two"):  # the key file is replaced in place
        key.write_text(text)
        await engine.ready()
    assert fake.keys == ["Bearer one", "Bearer two"]
    fake.script = ending()
    await chunks_of(engine)
    assert fake.requests[0]["model"] == "meta/m"
    await engine.close()


async def test_controls_are_requested_once_and_again_after_a_failure(fake: FakeChat, engine: OpenAIChatEngine) -> None:
    fake.script = ending()
    assert "top_k" in await engine.controls()
    await chunks_of(engine)
    assert fake.model_calls == 1
    fake.script = [Ending.ERROR]
    with pytest.raises(EngineFault):
        await chunks_of(engine)
    fake.owner = None
    assert "top_k" not in await engine.controls()
    with pytest.raises(EngineFault, match="cannot be told top_k"):
        await chunks_of(engine, replace(REQUEST, sampling=Sampling(top_k=3)))


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (404, EngineMisconfigured, "no such model"),
        (429, EngineUnavailable, "overloaded"),
        (500, EngineFault, "reported an error"),
        (502, EngineUnavailable, "cannot be reached"),
        (504, EngineTimeout, "in time"),
    ],
)
async def test_http_error_is_classified_by_its_status(
    fake: FakeChat, engine: OpenAIChatEngine, status: int, error: type[Exception], words: str
) -> None:
    fake.refusal = (status, {"error": {"message": "secret words"}})
    with pytest.raises(error, match=words) as caught:
        await chunks_of(engine)
    assert "secret" not in str(caught.value)


async def test_completion_that_is_not_streamed_is_read_whole(fake: FakeChat, engine: OpenAIChatEngine) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    message = {"role": "assistant", "reasoning": "Hm.", "content": "Paris", "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    fake.refusal = (200, {"object": "chat.completion", "choices": [choice], "usage": USAGE})
    chunks = await chunks_of(engine)
    segments = [segment for chunk in only(ChatChunk, chunks) for segment in chunk.segments]
    assert segments == [
        Reasoning("Hm."),
        Text("Paris"),
        CallBegin("f", "call_1"),
        Arguments('{"a":1}'),
        CallEnd(is_complete=True),
    ]
    assert (chunks[-1].finish, usage_in(chunks[-1])) == (FinishReason.STOP, ReportedUsage(4, 9))


async def test_error_in_an_answer_of_200_is_the_servers_error(fake: FakeChat, engine: OpenAIChatEngine) -> None:
    fake.refusal = (200, {"error": {"message": "prompt is too long: 9 tokens > 8 maximum", "code": 400}})
    with pytest.raises(ContextLengthExceeded):
        await chunks_of(engine)


@pytest.mark.parametrize(
    ("script", "error", "words"),
    [
        ([b"event: error\ndata: ", b'{"message":"secret","code":500}\n\n'], EngineFault, "reported an error"),
        ([b'event: error\ndata: {"message":"Loading","code":503}\n\n'], EngineUnavailable, "is not ready"),
        ([b'error: {"message":"Not so.","code":400}\n\n'], InvalidRequest, "rejects the request: Not so."),
        ([b"event: error\ndata: secret\n\n"], EngineFault, "reported an error"),
        (
            [b"<html>Bad ", b"gateway</html>"],
            EngineFault,
            "sent '<html>Bad gateway</html>' .text/event-stream. in place of a stream",
        ),
        ([b'{"detail": "secret"}'], EngineFault, "sent an object with detail .* in place of a stream"),
        ([b": ping\n\n"], EngineFault, "ended the stream before the generation"),
        ([], EngineFault, "ended the stream before the generation"),
    ],
)
async def test_answer_that_is_no_stream_is_an_error_that_says_what_came(
    fake: FakeChat, engine: OpenAIChatEngine, script: list[bytes], error: type[Exception], words: str
) -> None:
    fake.script = script
    with pytest.raises(error, match=words) as caught:
        await chunks_of(engine)
    assert "secret" not in str(caught.value)


async def test_all_models_of_the_server_are_listed(fake: FakeChat, engine: OpenAIChatEngine) -> None:
    assert [each.name for each in await engine.list_models()] == ["m"]
    fake.refusal = (401, {})
    with pytest.raises(EngineMisconfigured, match="API key"):
        await engine.list_models()


async def test_rejected_request_does_not_refresh_the_controls(fake: FakeChat, engine: OpenAIChatEngine) -> None:
    fake.refusal, fake.retry_after = (400, {"error": {"message": "Not so."}}), "7"
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="rejects the request: Not so."):
            await chunks_of(engine)
    assert fake.model_calls == 1
    fake.refusal = (429, {})
    with pytest.raises(EngineOverloaded) as caught:
        await chunks_of(engine)
    assert caught.value.facts == {"retry_after_ms": "7000"}


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [(401, EngineMisconfigured, "rejects the API key"), (503, EngineUnavailable, "is not ready")],
)
async def test_engine_is_not_ready_when_the_server_answers_an_error(
    fake: FakeChat, engine: OpenAIChatEngine, status: int, error: type[Exception], words: str
) -> None:
    await engine.ready()
    fake.refusal = (status, {"message": "no"})
    with pytest.raises(error, match=words):
        await engine.ready()


@pytest.mark.parametrize(
    ("told", "error", "words"),
    [
        ({"error": {"message": "x", "code": 503}}, EngineUnavailable, "is not ready"),
        ({"error": {"message": "x", "type": "BadRequestError", "code": 400}}, InvalidRequest, "rejects the request: x"),
        ({"error": "boom"}, EngineFault, "reported an error"),
        ({"error": {"message": "failed to parse grammar", "code": 400}}, InvalidRequest, "cannot compile a grammar"),
        ({"object": "error", "message": "x", "code": 429}, EngineUnavailable, "overloaded"),
    ],
)
async def test_error_within_the_stream_is_classified_by_its_body(
    fake: FakeChat, engine: OpenAIChatEngine, told: dict[str, Any], error: type[Exception], words: str
) -> None:
    fake.script = [delta(content="a"), event(told)]
    with pytest.raises(error, match=words):
        await chunks_of(engine)


@pytest.mark.parametrize("garbage", [b'data: {"choices":[{"delta":{"content":"a\n\n', b'data: {"choices" hm\n\n'])
async def test_event_that_may_hold_a_part_of_the_answer_and_cannot_be_read_is_a_fault(
    fake: FakeChat, engine: OpenAIChatEngine, garbage: bytes
) -> None:
    fake.script = [garbage]
    with pytest.raises(EngineFault, match="cannot be read"):
        await chunks_of(engine)


@pytest.mark.parametrize("garbage", [b"data: {\n\n", b"data: 7\n\n", b"data: processing\n\n"])
async def test_event_without_any_answer_is_skipped(fake: FakeChat, engine: OpenAIChatEngine, garbage: bytes) -> None:
    fake.script = [garbage, delta(content="Hi") + garbage, *ending()]
    chunks = await chunks_of(engine)
    assert [segment for chunk in only(ChatChunk, chunks) for segment in chunk.segments] == [Text("Hi")]
    assert chunks[-1].finish is FinishReason.STOP


async def test_stream_without_a_finish_reason_is_a_fault(fake: FakeChat, engine: OpenAIChatEngine) -> None:
    fake.script = [delta(content="a")]
    with pytest.raises(EngineFault, match="ended the stream before"):
        await chunks_of(engine)


async def test_silence_before_the_first_token_is_a_timeout(fake: FakeChat, profile: ModelProfile) -> None:
    engine = OpenAIChatEngine(replace(profile, first_token_timeout_s=0.3))
    fake.script = [Ending.SILENCE]
    with pytest.raises(EngineTimeout, match=r"no first token within 0\.3 s"):
        await chunks_of(engine)
    await engine.close()


async def test_keep_alives_do_not_reset_the_token_timeout(fake: FakeChat, profile: ModelProfile) -> None:
    engine = OpenAIChatEngine(replace(profile, token_timeout_s=0.2))
    fake.script = [delta(content="a"), *(step for _ in range(300) for step in (b": ping\n\n", 0.1)), *ending()]
    with pytest.raises(EngineTimeout, match=r"no next token within 0\.2 s"):
        await chunks_of(engine)
    await engine.close()


async def test_unreachable_server_is_unavailable(profile: ModelProfile) -> None:
    engine = OpenAIChatEngine(replace(profile, endpoint="http://127.0.0.1:9/v1"))
    for asking in (engine.ready(), engine.controls(), chunks_of(engine)):
        with pytest.raises(EngineUnavailable, match="cannot be reached"):
            await asking
    await engine.close()


async def test_probe_of_a_silent_server_times_out_and_closes_its_connection() -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        writer.close()
        gone.set()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    engine = OpenAIChatEngine(ModelProfile(name="m", directory=Path(), endpoint=url, probe_timeout_s=0.2))
    while not asked.is_set():  # on a busy machine the connection alone can take the whole timeout
        with pytest.raises(EngineTimeout, match="did not answer in time"):
            await engine.ready()
    await asyncio.wait_for(gone.wait(), WAIT_MAX_S)  # the client closed the connection
    await engine.close()
    server.close()


async def test_completed_turns_share_a_connection(fake: FakeChat, engine: OpenAIChatEngine) -> None:
    fake.script = ending()
    for _ in range(3):
        await chunks_of(engine)
    assert (len(fake.peers), len(set(fake.peers))) == (4, 1)


async def test_events_of_one_read_are_one_delivery(fake: FakeChat, engine: OpenAIChatEngine) -> None:
    fake.script = [b"".join([*(delta(content=letter) for letter in "Paris"), *ending()])]
    deliveries = pushed.Deliveries()
    await engine.generate(REQUEST, deliveries, Flow())
    assert [len(chunks) for chunks in deliveries.received] == [5, 1]


async def test_token_timeout_is_suspended_while_the_flow_is_paused(fake: FakeChat, profile: ModelProfile) -> None:
    engine = OpenAIChatEngine(replace(profile, token_timeout_s=0.2))
    fake.script = [delta(content="a"), Ending.SILENCE]
    flow, came = Flow(), asyncio.Event()

    def deliver(chunks: Sequence[EngineChunk]) -> bool:
        flow.pause(came)
        came.set()
        return True

    running = asyncio.create_task(engine.generate(REQUEST, deliver, flow))
    await came.wait()
    await asyncio.sleep(0.4)
    assert not running.done()
    flow.resume(came)
    with pytest.raises(EngineTimeout, match=r"no next token within 0\.2 s"):
        await running
    await engine.close()


async def test_request_id_and_trace_are_sent_to_the_server(fake: FakeChat, engine: OpenAIChatEngine) -> None:
    fake.script = [delta(content="Paris"), *ending()]
    correlation.begin(Correlation("req_1", trace=TraceContext("1" * 32, "2" * 16, is_sampled=True)))
    await chunks_of(engine)
    assert fake.headers[-1]["x-request-id"] == "req_1"
    assert fake.headers[-1]["traceparent"] == f"00-{'1' * 32}-{'2' * 16}-01"


async def test_token_of_a_router_is_kept_and_sent_again_with_the_next_turn(
    fake: FakeChat, profile: ModelProfile
) -> None:
    routed = replace(profile, router="llm_d")
    engine = WatchedEngine(OpenAIChatEngine(routed), routed)
    fake.script, fake.answer_headers = ending(), {"x-session-token": "bnMvcG9kLTc="}
    first = [chunk async for batch in pushed.chunks(engine, REQUEST) for chunk in batch]
    assert first[0].placement == placement_of(routed.endpoint, "bnMvcG9kLTc=")
    hint = PlacementHint(first[0].placement, 400, 0)
    async for _ in pushed.chunks(engine, replace(REQUEST, placement=[hint])):
        pass
    assert [headers.get("x-session-token") for headers in fake.headers] == [None, "bnMvcG9kLTc="]
    await engine.close()


@pytest.mark.parametrize("router", ["smg", "sglang"])
async def test_router_is_told_the_session_in_a_header_or_a_member(
    fake: FakeChat, profile: ModelProfile, tmp_path: Path, router: Any
) -> None:
    (tmp_path / "secret").write_text("0123456789abcdef")
    engine = OpenAIChatEngine(replace(profile, router=router, session_secret_file=tmp_path / "secret"))
    fake.script = ending()
    for tree in ("one", "one", "other"):
        await chunks_of(engine, replace(REQUEST, conversation=tree))
    told = [headers.get("x-smg-routing-key") or body.get("session_id") for headers, body in _told(fake)]
    assert told[0] == told[1] != told[2]
    assert all(isinstance(key, str) and len(key) == 32 for key in told)
    await engine.close()


def _told(fake: FakeChat) -> list[tuple[Mapping[str, str], Any]]:
    return list(zip(fake.headers, fake.requests, strict=True))
