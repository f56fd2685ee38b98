from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import aclosing, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from antiphon_core import events
from antiphon_core.clock import ManualClock
from antiphon_core.config import SettingsError
from antiphon_core.errors import (
    ContextLengthExceeded,
    EngineTimeout,
    EngineUnavailable,
    InvalidRequest,
    ModelNotFound,
    TranslatorUnavailable,
)
from antiphon_core.flow import Flow
from antiphon_core.fold import fold
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Resume, Turn
from antiphon_core.telemetry import metrics
from antiphon_translator import service as service_module
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.openai_chat import OpenAIChatEngine
from antiphon_translator.engines.scripted import ALL_CONTROLS, Break, Emit, Hang, ScriptedEngine, Step, Wait
from antiphon_translator.generation import GenerationRequest, Level, TokenChunk
from antiphon_translator.media.sight import Sight
from antiphon_translator.models import served_model
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.pipeline import TurnPipeline
from antiphon_translator.prompt.prompt import EncodedPrompt, PromptEncoder
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from antiphon_translator.templates.jinja import JinjaTemplate
from tests.support import pushed
from tests.support.fake_chat import delta, ending, fake_chat
from tests.support.images import PNG, data_url, image_part, user
from tests.support.prompts import ids_in
from tests.support.reasoning_model import TOKENIZER as thinking_tokenizer
from tests.support.reasoning_model import reasoning_model
from tests.support.served_models import END_ID, message, model, tokenizer, turn, write_directory
from tests.support.waiting import WAIT_MAX_S, until
from tests.support.web import Page, web_server

CLOCK = ManualClock(now_ms=1_700_000_123_456)


def serving(*script: Step, settings: TranslatorSettings | None = None) -> tuple[TranslatorService, ScriptedEngine]:
    engine = ScriptedEngine(script, controls=ALL_CONTROLS | {"guide", "text_guide"})
    service = TranslatorService(settings or TranslatorSettings(), clock=CLOCK, ids_of=lambda _: SequentialIds())
    service.add(model(), engine)
    return service, engine


def saying(text: str) -> list[Step]:
    return [Emit([token]) for token in [*tokenizer().encode(text), END_ID]]


async def run(service: TranslatorService, given: Turn | None = None) -> list[Batch]:
    return [batch async for batch in pushed.generated(service, given or turn("Hi"))]


def log_of(batches: Sequence[Batch]) -> list[Object]:
    return [event for batch in batches for event in events.decode(batch.frames)]


async def test_turn_ends_with_its_final_record() -> None:
    service, _ = serving(*saying("Hello there"))
    batches = await run(service)
    final = batches[-1].final
    assert final is not None
    record = loads(final.body) | {"output": loads(final.output_items)}
    assert record == fold(log_of(batches))
    assert record["output"][0]["content"][0]["text"] == "Hello there"
    assert record["completed_at"] == 1_700_000_123
    assert final.status is Status.COMPLETED


async def test_first_batch_is_sent_before_any_output_of_the_engine() -> None:
    service, _ = serving(Hang())
    async with aclosing(pushed.generated(service, turn("Hi"))) as batches:
        first = await anext(batches)
    assert [event["type"] for event in events.decode(first.frames)] == ["response.created", "response.in_progress"]


async def test_chunks_of_one_delivery_become_one_batch() -> None:
    hello = [[token] for token in tokenizer().encode("a b c d e f")]
    service, _ = serving(Emit(*hello), Emit([END_ID]))
    batches = await run(service)
    assert [batch.count for batch in batches] == [2, 2 + len(hello), 3, 1]


async def test_closing_the_generator_stops_the_engine() -> None:
    service, engine = serving(Emit(tokenizer().encode("Hello")), Hang())
    async with aclosing(pushed.generated(service, turn("Hi"))) as batches:
        await anext(batches)
        await anext(batches)
        assert not engine.stopped.is_set()
    assert engine.stopped.is_set()


async def test_cancelling_the_task_stops_the_generation_of_the_engine() -> None:
    service, engine = serving(Hang())
    running = asyncio.create_task(run(service))
    await until(lambda: bool(engine.requests), "the engine is asked")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert engine.stopped.is_set()


async def test_engine_that_continues_behind_the_end_id_is_stopped() -> None:
    service, engine = serving(*saying("Hello"), Hang())
    async with asyncio.timeout(30):
        batches = await run(service)
    assert engine.stopped.is_set()
    assert log_of(batches)[-1]["type"] == "response.completed"


async def test_answers_that_do_not_match_their_format_are_counted() -> None:
    service, engine = serving(*saying("{}"))
    asked = turn("Hi", text={"format": {"type": "json_object"}})
    counter = metrics.FORMAT_MISMATCHES.of(model().name)
    before = counter.value
    await run(service, asked)
    assert counter.value == before
    for count in (1, 2):
        engine.script = saying("Hello")
        await run(service, asked)
        assert counter.value == before + count


@pytest.mark.parametrize(
    ("fault", "reason", "message"),
    [
        (EngineTimeout("No token came."), "ENGINE_TIMEOUT", "No token came."),
        (EngineUnavailable("It is gone."), "ENGINE_UNAVAILABLE", "It is gone."),
    ],
)
async def test_engine_error_fails_the_response_with_its_text_kept(
    fault: EngineTimeout, reason: str, message: str
) -> None:
    service, _ = serving(Emit(tokenizer().encode("Half")), Break(fault))
    batches = await run(service)
    assert [event["type"] for event in log_of(batches)][-2:] == ["error", "response.failed"]
    final = batches[-1].final
    assert final is not None
    assert final.status is Status.FAILED
    assert loads(final.body)["error"] == {"code": "server_error", "message": message, "cause": {"reason": reason}}
    assert fold(log_of(batches))["output"][0]["content"][0]["text"] == "Half"


@pytest.mark.parametrize(("isolates", "warnings"), [(False, 1), (True, 0)])
async def test_second_tenant_of_a_model_with_a_shared_cache_is_warned_of(
    isolates: bool, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    service, _ = serving(*saying("Hi"))
    service.add(model(isolates_tenants=isolates), ScriptedEngine(saying("Hi"), controls=ALL_CONTROLS))
    for tenant in ("acme", "acme", "globex", "initech"):
        await run(service, replace(turn("Hi"), tenant=tenant, cache_salt=tenant))
    assert caplog.text.count("several tenants use the model") == warnings


async def test_unexpected_exception_fails_the_response_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    service, engine = serving()
    engine.script = [Break(ZeroDivisionError("secret"))]  # type: ignore[arg-type]
    batches = await run(service)
    assert batches[-1].final is not None
    assert loads(batches[-1].final.body)["error"]["cause"] == {"reason": "INTERNAL"}
    assert b"secret" not in b"".join(batch.frames for batch in batches)
    assert "secret" in caplog.text


async def test_unexpected_pipeline_exception_fails_the_response_and_stops_the_engine(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def receive(*_: object) -> list[Batch]:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(TurnPipeline, "receive", receive)
    service, engine = serving(Emit([20]), Hang())
    async with asyncio.timeout(30):
        batches = await run(service)
    assert batches[-1].final is not None
    assert loads(batches[-1].final.body)["error"]["cause"] == {"reason": "INTERNAL"}
    assert engine.stopped.is_set()
    assert "secret" in caplog.text


async def test_batches_are_sent_within_the_call_that_delivers_their_chunks() -> None:
    service, _ = serving()
    received: list[Batch] = []
    counts: list[int] = []

    class Counting(ScriptedEngine):
        async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
            for token_id in tokenizer().encode("a b c"):
                deliver([TokenChunk([token_id])])
                counts.append(sum(batch.count for batch in received))
            deliver([TokenChunk([END_ID])])

    service.add(model(), Counting([]))
    await service.generate(turn("Hi"), received.append)
    assert counts == [5, 6, 7]  # two events open the response, two open the message, and each id adds one


async def test_engine_gets_the_flow_of_the_caller() -> None:
    service, engine = serving(*saying("Hello"))
    flow, received = Flow(), list[Batch]()
    flow.pause(received)
    running = asyncio.create_task(service.generate(turn("Hi"), received.append, flow=flow))
    await until(lambda: bool(engine.requests), "the engine is asked")
    async with asyncio.timeout(WAIT_MAX_S):
        await asyncio.sleep(0.01)
        assert [batch.count for batch in received] == [2]
        flow.resume(received)
        await running
    assert received[-1].final is not None


async def test_invalid_turn_raises_before_the_first_batch() -> None:
    service, engine = serving(*saying("Hello"))
    with pytest.raises(ModelNotFound):
        await run(service, turn("Hi", model="other"))
    with pytest.raises(InvalidRequest):
        await run(service, turn("Hi", temperature=9))
    with pytest.raises(InvalidRequest):
        await run(service, turn())
    with pytest.raises(ModelNotFound):
        await service.count_tokens(turn("Hi", model="other"))
    assert engine.requests == []


@pytest.mark.parametrize(("length", "inline"), [(10, True), (service_module.INLINE_TURN_BYTES_MAX, False)])
async def test_long_turns_are_encoded_in_another_thread(
    length: int, inline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def encode(*_: object, **__: object) -> EncodedPrompt:
        threads.append(threading.current_thread())
        return EncodedPrompt([""], 3, [1, 2, 3])

    service, _ = serving(*saying("Hello"))
    monkeypatch.setattr(PromptEncoder, "encode", encode)
    await run(service, turn("x" * length))
    assert await service.count_tokens(turn("x" * length)) == 3
    assert [thread is threading.main_thread() for thread in threads] == [inline, inline]


@pytest.mark.parametrize(("ids", "inline"), [(10, True), (service_module.INLINE_TURN_BYTES_MAX, False)])
async def test_long_output_of_an_earlier_translator_is_read_in_another_thread(
    ids: int, inline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    start = TurnPipeline.start

    def noting(pipeline: TurnPipeline) -> tuple[list[Batch], GenerationRequest]:
        threads.append(threading.current_thread())
        return start(pipeline)

    service, _ = serving(*saying("Hello"))
    monkeypatch.setattr(TurnPipeline, "start", noting)
    resume = Resume(7, (tokenizer().encode("a b ") * ids)[:ids])
    await service.generate(turn("Hi"), lambda _batch: None, resume=resume)
    assert [thread is threading.main_thread() for thread in threads] == [inline]


@pytest.mark.parametrize(("words", "inline"), [(10, True), (5_000, False)])
async def test_long_output_before_a_guided_answer_is_read_again_in_another_thread(
    words: int, inline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    follow_up = TurnPipeline.follow_up

    def noting(pipeline: TurnPipeline) -> GenerationRequest | None:
        threads.append(threading.current_thread())
        return follow_up(pipeline)

    thought = thinking_tokenizer.encode("<think>" + "hm " * words + "</think>So")
    engine = Replaying([Emit([each]) for each in thought], [Emit(reasoning_model().stop_ids)])
    service = TranslatorService(TranslatorSettings(), clock=CLOCK, ids_of=lambda _: SequentialIds())
    service.add(replace(reasoning_model(), context_length=2**20, can_reason=True), engine)
    monkeypatch.setattr(TurnPipeline, "follow_up", noting)
    batches = await run(service, turn("Hi", nvext={"guided_regex": "[0-9]+"}))
    assert [request.guide is not None for request in engine.requests] == [False, True]
    assert fold(log_of(batches))["output"][0]["type"] == "reasoning"
    assert (threads[0] is threading.main_thread()) is inline


async def test_count_tokens_equals_the_prompt_length_of_generate() -> None:
    service, engine = serving(*saying("Hello"))
    given = turn("How many?", instructions="Be exact.")
    count = await service.count_tokens(given)
    batches = await run(service, given)
    assert count == len(ids_in(engine.requests[0]))
    assert log_of(batches)[-1]["response"]["usage"]["input_tokens"] == count


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"temperature": 0.5}, "temperature"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
    ],
)
async def test_check_rejects_parameters_that_the_engine_lacks_as_generate_does(asked: Object, field: str) -> None:
    service = TranslatorService(TranslatorSettings(), clock=CLOCK, ids_of=lambda _: SequentialIds())
    service.add(model(), ScriptedEngine(saying("Hello"), controls=frozenset()))
    for call in (run(service, turn("Hi", **asked)), service.check(turn("Hi", **asked))):
        with pytest.raises(InvalidRequest) as caught:
            await call
        assert (caught.value.field, caught.value.code) == (field, "unsupported_parameter")


async def test_check_of_a_turn_for_an_engine_that_is_down_finds_other_errors() -> None:
    class Down(ScriptedEngine):
        async def controls(self) -> frozenset[str]:
            raise EngineUnavailable("It sleeps.")

    service = TranslatorService(TranslatorSettings(), clock=CLOCK, ids_of=lambda _: SequentialIds())
    service.add(model(), Down(()))
    await service.check(turn("Hi", temperature=0.5))
    with pytest.raises(InvalidRequest):
        await service.check(turn("Hi", temperature=9))
    with pytest.raises(ContextLengthExceeded):
        await service.check(turn("Hello world, " * 400_000))


@pytest.mark.parametrize("controls", [frozenset({"temperature"}), None])
async def test_turn_for_a_model_without_a_tokenizer_can_be_checked(controls: frozenset[str] | None) -> None:
    class Chat(ScriptedEngine):
        level = Level.CHAT

        async def controls(self) -> frozenset[str]:
            if controls is None:
                raise EngineUnavailable("It sleeps.")
            return controls

    service = TranslatorService(TranslatorSettings(), clock=CLOCK, ids_of=lambda _: SequentialIds())
    profile = ModelProfile(name="m", endpoint="http://127.0.0.1:1", engine="openai_chat")
    service.add(served_model.load(profile), Chat(()))
    await service.check(turn("Hi"))
    with pytest.raises(InvalidRequest, match="no tokenizer here"):
        await service.check(turn("Hi", truncation="auto"))


async def test_check_for_a_chat_server_that_is_down_leaves_the_template_to_the_server() -> None:
    class Down(ScriptedEngine):
        level = Level.CHAT

        async def controls(self) -> frozenset[str]:
            raise EngineUnavailable("It sleeps.")

    template = JinjaTemplate("{{ raise_exception('no') if messages | length > 1 else 'x' }}", special_tokens={})
    service = TranslatorService(TranslatorSettings(), clock=CLOCK, ids_of=lambda _: SequentialIds())
    service.add(model(prompt=PromptEncoder(template, tokenizer())), Down(()))
    await service.check(turn("And then?", history=[message("user", "Hi"), message("assistant", "Hello")]))


async def test_concurrent_turns_do_not_mix() -> None:
    steps = [step for one in saying("a b c") for step in (Wait(0.001), one)]
    service, _ = serving(*steps)
    results = await asyncio.gather(*(run(service) for _ in range(10)))
    assert {fold(log_of(batches))["output"][0]["content"][0]["text"] for batches in results} == {"a b c"}


async def test_listed_models_have_their_readiness_and_its_reason() -> None:
    service, engine = serving(settings=TranslatorSettings(probe_ttl_s=0))
    service.add(model(name="other"), ScriptedEngine([], controls=ALL_CONTROLS | {"guide", "text_guide"}))
    engine.unavailable = "It sleeps."
    first, second = await service.models()
    assert (first.id, first.root, first.ready, first.reason) == ("m", "m", False, "It sleeps.")
    assert (second.id, second.ready, second.reason) == ("other", True, "")
    assert (first.context_length, first.created_at) == (8192, 1_700_000_123)


async def test_service_is_ready_while_one_model_is_ready() -> None:
    service, engine = serving(settings=TranslatorSettings(probe_ttl_s=0))
    await service.ready()
    engine.unavailable = "It sleeps."
    with pytest.raises(TranslatorUnavailable, match="m: It sleeps"):
        await service.ready()
    service.add(model(name="other"), ScriptedEngine([], controls=ALL_CONTROLS | {"guide", "text_guide"}))
    await service.ready()


async def test_service_without_models_is_not_ready() -> None:
    service = TranslatorService(TranslatorSettings(), clock=CLOCK, ids_of=lambda _: SequentialIds())
    await service.open()
    assert await service.models() == []
    with pytest.raises(TranslatorUnavailable, match="No model"):
        await service.ready()


async def test_open_serves_the_models_of_the_profiles_directory(tmp_path: Path) -> None:
    write_directory(tmp_path / "weights")
    text = 'name = "smollm2"\ndirectory = "weights"\nendpoint = "127.0.0.1:1"\n'
    (tmp_path / "m.toml").write_text(text)
    settings = TranslatorSettings(profiles=tmp_path, prompt_cache_bytes=1234)
    service = TranslatorService(settings, clock=CLOCK, ids_of=lambda _: SequentialIds())
    await service.open()
    (served,) = await service.models()
    assert (served.id, served.ready) == ("smollm2", False)
    assert service._routes["smollm2"].model.prompt._encoder._cache._most_bytes == settings.prompt_cache_bytes
    assert "cannot be reached" in served.reason
    assert await service.count_tokens(turn("Hi", model="smollm2")) > 3
    with pytest.raises(EngineUnavailable):
        await run(service, turn("Hi", model="smollm2"))
    await service.close()

    (tmp_path / "m.toml").write_text(text + 'engine = "steam"\n')
    with pytest.raises(SettingsError, match="no engine 'steam'"):
        await TranslatorService(settings, clock=CLOCK, ids_of=lambda _: SequentialIds()).open()


async def test_close_closes_the_engines() -> None:
    service, engine = serving()
    await service.close()
    with pytest.raises(EngineUnavailable):
        await engine.ready()
    assert await service.models() == []


async def test_turn_behind_the_end_is_rejected_as_unavailable_and_not_as_a_missing_model() -> None:
    service, _ = serving(*saying("Hello"))
    await service.close()
    with pytest.raises(TranslatorUnavailable, match="is stopping"):
        await run(service)
    with pytest.raises(TranslatorUnavailable, match="is stopping"):
        await service.count_tokens(turn("Hi"))


class Replaying(ScriptedEngine):
    """An engine that plays one script for each generation."""

    def __init__(self, *scripts: Sequence[Step]) -> None:
        super().__init__((), controls=ALL_CONTROLS | {"guide", "text_guide"})
        self.scripts = list(scripts)

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        self.script = self.scripts.pop(0)
        await super().generate(request, deliver, flow)


async def test_guided_answer_behind_tools_takes_a_second_generation() -> None:
    tools = [{"type": "function", "name": "f"}]
    engine = Replaying([Emit(tokenizer().encode("Sure")), Hang()], saying("42"))
    service = TranslatorService(TranslatorSettings(), clock=CLOCK, ids_of=lambda _: SequentialIds())
    service.add(model(), engine)
    batches = await run(service, turn("Hi", tools=tools, nvext={"guided_regex": "[0-9]+"}))
    assert engine.stopped.is_set()  # the first generation is stopped when its answer begins
    assert [request.guide is not None for request in engine.requests] == [False, True]
    assert fold(log_of(batches))["output"][0]["content"][0]["text"] == "42"


# ---- Images and files ----

LOCAL = TranslatorSettings(media_http=True, media_private_addresses=True)


def showing(*parts: str | Object) -> Turn:
    return replace(turn(), input=dumps([user(*parts)]))


async def test_file_url_is_fetched_into_the_prompt() -> None:
    service, engine = serving(*saying("Hello"), settings=LOCAL)
    async with web_server() as web:
        web.pages["/notes.md"] = Page([b"# Notes"])
        given = showing("Sum up.", {"type": "input_file", "file_url": web.url("/notes.md", "127.0.0.1")})
        await run(service, given)
        assert await service.count_tokens(given) == len(ids_in(engine.requests[0]))
    await service.close()
    prompt = tokenizer().decode(ids_in(engine.requests[0]))
    assert 'Sum up.\n<file name="notes.md">\n# Notes\n</file>' in prompt


async def test_images_are_fetched_only_for_vision_models() -> None:
    async with web_server() as web:
        web.pages["/a"] = Page([PNG])
        part = image_part(web.url("/a", "127.0.0.1"))
        for sight, controls, requests in (
            (Sight.NATIVE, {"images"}, 1),
            (Sight.NATIVE, set[str](), 0),
            (Sight.PLACEHOLDER, {"images"}, 0),
            (Sight.REFUSE, {"images"}, 0),
        ):
            service = TranslatorService(LOCAL, clock=CLOCK, ids_of=lambda _: SequentialIds())
            engine = ScriptedEngine(saying("Hello"), controls=ALL_CONTROLS | controls)
            service.add(model(sight=sight), engine)
            refused = requests == 0 and sight is not Sight.PLACEHOLDER
            with pytest.raises(InvalidRequest, match="sees no images") if refused else nullcontext():
                await run(service, showing("a", part))
            assert len(web.requests) == requests
            web.requests.clear()
            await service.close()


async def test_failed_fetch_raises_before_the_first_batch() -> None:
    service = TranslatorService(TranslatorSettings(), clock=CLOCK, ids_of=lambda _: SequentialIds())
    service.add(model(sight=Sight.NATIVE), ScriptedEngine([], controls=ALL_CONTROLS | {"images"}))
    for url, code in (
        ("http://a.example/", "invalid_image_url"),
        ("https://127.0.0.1:1/", "failed_to_download_image"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            await run(service, showing("a", image_part(url)))
        assert (caught.value.field, caught.value.code) == ("input[0].content[1].image_url", code)
        assert "127.0.0.1" not in caught.value.message
    await service.close()


async def test_chat_server_gets_the_image_and_never_its_url(tmp_path: Path) -> None:
    async with web_server() as web, fake_chat() as chat:
        web.pages["/a"] = Page([PNG])
        url = web.url("/a", "127.0.0.1")
        chat.script = [delta(content="A cat."), *ending()]
        profile = ModelProfile(name="m", directory=tmp_path, endpoint=chat.endpoint, engine="openai_chat")
        service = TranslatorService(LOCAL, clock=CLOCK, ids_of=lambda _: SequentialIds())
        service.add(model(sight=Sight.NATIVE), OpenAIChatEngine(profile))
        batches = await run(service, showing("What is it?", image_part(url, detail="low")))
        await service.close()
    (asked,) = chat.requests
    assert asked["messages"][0]["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": data_url(PNG), "detail": "low"}},
    ]
    assert url not in str(asked)
    assert fold(log_of(batches))["output"][0]["content"][0]["text"] == "A cat."


async def test_url_fetch_after_close_is_rejected_and_opens_nothing() -> None:
    service, _ = serving()
    await service.close()
    with pytest.raises(TranslatorUnavailable, match="stopping"):
        service._url_fetcher()
    assert service._fetcher is None
