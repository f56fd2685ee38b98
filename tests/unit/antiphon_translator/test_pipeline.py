from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core import events
from antiphon_core.errors import ContextLengthExceeded, EngineTimeout, InvalidRequest
from antiphon_core.fold import fold
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, EngineTimes, Resume, Turn
from antiphon_core.request.body import Parameters
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import (
    ChatChunk,
    ChatPrompt,
    EngineChunk,
    EngineFacts,
    FinishReason,
    GenerationRequest,
    Level,
    ReportedUsage,
    TextPrompt,
    TokenChunk,
)
from antiphon_translator.media.downloads import NOTHING, Download, Downloads
from antiphon_translator.media.sight import Sight
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.parsing.segments import Text
from antiphon_translator.pipeline import TurnPipeline
from antiphon_translator.prompt.prompt import PromptEncoder
from antiphon_translator.templates.jinja import JinjaTemplate
from antiphon_translator.turn.turn_prompt import TurnPrompt
from tests.support.images import GIF, PNG, data_url, image_part, user
from tests.support.pipelines import pipeline_of
from tests.support.prompts import ids_in, images_in, text_in
from tests.support.served_models import END_ID, message, model, tokenizer, turn, uncached_prompts

ABLE = ALL_CONTROLS | {"ignore_eos", "guide", "text_guide"}
COMPLETED_AT = 1_700_000_009


def encoded(text: str) -> list[int]:
    return tokenizer().encode(text)


def pipeline(given_turn: Turn, served: ServedModel | None = None) -> TurnPipeline:
    return pipeline_of(served or model(), given_turn, controls=ABLE, ids=SequentialIds())


def events_of(batches: Sequence[Batch]) -> list[Object]:
    return [event for batch in batches for event in events.decode(batch.frames)]


def play(
    chunks: Sequence[Sequence[int] | EngineChunk], *, error: bool = False, **request: Any
) -> tuple[list[Batch], GenerationRequest]:
    """Runs a whole turn. Returns all batches and the request to the engine."""
    made = pipeline(turn("Hi", **request))
    batches, asked = made.start()
    for chunk in chunks:
        if made.is_done:
            break
        batches += made.receive([chunk if isinstance(chunk, EngineChunk) else TokenChunk(chunk)])
    if error:
        return batches + made.fail(EngineTimeout("No token came.")), asked
    return batches + made.finish(completed_at=COMPLETED_AT), asked


def ended(batches: Sequence[Batch]) -> Object:
    response: Object = events_of(batches)[-1]["response"]
    return response


def text_of(response: Object) -> str:
    (item,) = response["output"]
    (part,) = item["content"]
    return str(part["text"])


def test_turn_with_an_answer_completes_with_text_and_usage() -> None:
    batches, asked = play([[token] for token in encoded("Hello there")] + [[END_ID]])
    response = ended(batches)
    assert text_of(response) == "Hello there"
    assert response["status"] == "completed"
    assert response["completed_at"] == COMPLETED_AT
    assert response["usage"]["input_tokens"] == len(ids_in(asked))
    assert response["usage"]["output_tokens"] == len(encoded("Hello there")) + 1
    assert tokenizer().decode(ids_in(asked)) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert (asked.request_id, asked.stop_ids) == (response["id"], (END_ID,))


def test_the_first_events_come_before_any_token() -> None:
    batches, _ = pipeline(turn("Hi")).start()
    assert [event["type"] for event in events_of(batches)] == ["response.created", "response.in_progress"]


def test_history_and_instructions_are_part_of_the_prompt() -> None:
    history = [message("user", "a"), message("assistant", "b")]
    given_turn = turn("c", history=history, instructions="Be brief.")
    assert tokenizer().decode(prompt_ids(model(), given_turn)) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
        "<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n"
    )
    _, asked = pipeline(given_turn).start()
    assert ids_in(asked) == prompt_ids(model(), given_turn)


def test_each_engine_message_makes_one_delta() -> None:
    one, *rest = encoded("Hello there you")
    batches, _ = play([[one], rest])
    deltas = [event["delta"] for event in events_of(batches) if event["type"] == events.OUTPUT_TEXT_DELTA]
    assert deltas == ["Hello", " there you"]


def test_max_tokens_without_an_end_is_incomplete() -> None:
    ids = encoded("one two three four five")
    batches, asked = play([ids], max_output_tokens=3)
    response = ended(batches)
    assert asked.max_tokens == 3
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"
    assert response["usage"]["output_tokens"] == 3
    assert text_of(response) == tokenizer().decode(ids[:3])
    assert response["max_output_tokens"] == 3


@pytest.mark.parametrize(("asked", "limit"), [({}, 2), ({"max_output_tokens": 3}, 3)])
def test_answer_limit_of_the_profile_applies_to_requests_without_one(asked: dict[str, Any], limit: int) -> None:
    batches, request = pipeline(turn("Hi", **asked), model(max_output_tokens=2)).start()
    told = events_of(batches)[0]["response"]
    assert (request.max_tokens, told["max_output_tokens"]) == (limit, limit)


ALL = 10**6
"""More tokens than a prompt has."""


@pytest.mark.parametrize(
    ("reports", "cached"),
    [
        ([EngineFacts(8)], 8),
        ([EngineFacts(8, 5), EngineFacts(9, 6, 7)], 8),  # of an engine that goes on behind the ids of another one
        ([EngineFacts(None, 5), EngineFacts(0, 6, 7)], 0),
        ([EngineFacts(ALL)], ALL),
        ([], None),
    ],
)
def test_first_report_of_the_engine_counts(reports: list[EngineFacts], cached: int | None) -> None:
    made = pipeline(turn("Hi"), model())
    made.start()
    made.receive([*(TokenChunk(encoded("one"), facts=facts) for facts in reports), TokenChunk([END_ID])])
    batches = made.finish(completed_at=COMPLETED_AT)
    usage, final = ended(batches)["usage"], batches[-1].final
    assert made.usage is not None
    assert final is not None
    assert made.usage.cached_tokens == (cached if cached != ALL else usage["input_tokens"])
    written = 0 if cached is None else usage["input_tokens"] - (made.usage.cached_tokens or 0)
    shown = {"cached_tokens": made.usage.cached_tokens or 0, "cache_write_tokens": written}
    assert usage["input_tokens_details"] == shown
    assert final.times == made.usage.times == EngineTimes(*((5, 7) if len(reports) == 2 else ()))


def test_placement_is_that_of_the_endpoint_which_ended_the_generation() -> None:
    made = pipeline(turn("Hi"))
    made.start()
    assert made.placement is None
    for chunk in (TokenChunk(encoded("one"), placement="a"), TokenChunk(encoded("two"))):
        made.receive([chunk])
        assert made.placement == "a"
    made.receive([TokenChunk([END_ID], placement="b"), TokenChunk()])
    assert made.placement == "b"


def test_end_id_as_the_last_permitted_token_completes_the_response() -> None:
    batches, _ = play([encoded("one two"), [END_ID]], max_output_tokens=len(encoded("one two")) + 1)
    assert ended(batches)["status"] == "completed"


def test_engine_that_does_not_send_its_end_id_completes_the_response() -> None:
    batches, _ = play([encoded("one two")], max_output_tokens=100)
    assert ended(batches)["status"] == "completed"
    assert ended(batches)["usage"]["output_tokens"] == len(encoded("one two"))


def prompt_ids(served: ServedModel, given_turn: Turn) -> Sequence[int]:
    return TurnPrompt.of(served, given_turn, Parameters.parse(given_turn.request)).ids


@pytest.mark.parametrize(("reason", "status"), [(FinishReason.STOP, "completed"), (FinishReason.LENGTH, "incomplete")])
def test_finish_reason_of_the_engine_sets_the_status(reason: FinishReason, status: str) -> None:
    batches, _ = play([TokenChunk(encoded("one"), finish=reason)])
    assert ended(batches)["status"] == status


def test_tokens_behind_the_end_id_are_neither_shown_nor_counted() -> None:
    made = pipeline(turn("Hi"))
    made.start()
    batches = made.receive([TokenChunk([*encoded("yes"), END_ID, *encoded("no")]), TokenChunk(encoded("no"))])
    assert made.is_done
    batches += made.receive([TokenChunk(encoded("no"))])
    response = ended(batches + made.finish(completed_at=0))
    assert text_of(response) == "yes"
    assert response["usage"]["output_tokens"] == 2


def test_every_stop_id_ends_the_turn_and_is_not_text() -> None:
    made = pipeline(turn("Hi"), model(stop_ids=(END_ID, 0)))
    _, asked = made.start()
    assert asked.stop_ids == (END_ID, 0)
    assert asked.stop_tokens == ("<|endoftext|>",)
    batches = made.receive([TokenChunk([*encoded("yes"), 0])])
    assert made.is_done
    assert text_of(ended(batches + made.finish(completed_at=0))) == "yes"


def test_added_tokens_without_a_meaning_are_text() -> None:
    batches, _ = play([[3, *encoded("x"), END_ID]])
    assert text_of(ended(batches)) == "<repo_name>x"


@pytest.mark.parametrize("chunks", [[], [[END_ID]]])
def test_an_empty_answer_is_one_empty_message(chunks: list[list[int]]) -> None:
    batches, _ = play(chunks)
    assert text_of(ended(batches)) == ""
    assert ended(batches)["output"][0]["status"] == "completed"
    assert not [event for event in events_of(batches) if event["type"] == events.OUTPUT_TEXT_DELTA]


def test_character_cut_off_by_the_length_is_left_out() -> None:
    ids = encoded("ab☃")
    batches, _ = play([ids], max_output_tokens=len(ids) - 1)
    assert text_of(ended(batches)) == "ab"


def test_failed_response_keeps_its_text_and_has_the_error() -> None:
    batches, _ = play([encoded("Half a")], error=True)
    response = ended(batches)
    assert response["status"] == "failed"
    cause = {"reason": "ENGINE_TIMEOUT"}
    assert response["error"] == {"code": "server_error", "message": "No token came.", "cause": cause}
    assert text_of(response) == "Half a"
    assert response["output"][0]["status"] == "incomplete"
    assert events_of(batches)[-2]["code"] == "engine_timeout"
    assert batches[-1].final is not None
    assert batches[-1].final.status is Status.FAILED


def test_failed_response_keeps_text_that_was_held_back() -> None:
    batches, _ = play([encoded("yes"), encoded("\ufffd")], error=True)
    assert text_of(ended(batches)) == "yes\ufffd"


def test_a_failure_before_the_first_token_has_no_items() -> None:
    batches, _ = play([], error=True)
    assert ended(batches)["output"] == []


def test_response_echoes_the_effective_parameters() -> None:
    made = pipeline(turn("Hi", top_p=0.5), model(sampling_defaults={"temperature": 0.6}, context_length=100))
    batches, asked = made.start()
    created = events_of(batches)[0]["response"]
    assert (created["temperature"], created["top_p"]) == (0.6, 0.5) == (asked.sampling.temperature, 0.5)
    assert created["max_output_tokens"] is None
    assert asked.max_tokens == 100 - len(ids_in(asked))


def test_a_seed_is_drawn_for_each_request() -> None:
    ids = SequentialIds()
    seeds = {
        pipeline_of(model(), turn("Hi"), controls=ALL_CONTROLS, ids=ids).start()[1].sampling.seed for _ in range(3)
    }
    assert len(seeds) == 3
    assert all(seed is not None and 0 <= seed < 2**32 for seed in seeds)


def test_max_output_tokens_is_reduced_to_the_remaining_context() -> None:
    room = 5
    length = len(prompt_ids(model(), turn("Hi"))) + room
    batches, asked = pipeline(turn("Hi", max_output_tokens=4000), model(context_length=length)).start()
    assert asked.max_tokens == room
    assert events_of(batches)[0]["response"]["max_output_tokens"] == room


def test_prompt_that_fills_the_context_is_rejected_with_its_counts() -> None:
    length = len(prompt_ids(model(), turn("Hi")))
    with pytest.raises(ContextLengthExceeded) as caught:
        pipeline(turn("Hi"), model(context_length=length))
    assert caught.value.facts == {"input_tokens": str(length), "context_length": str(length)}
    pipeline(turn("Hi"), model(context_length=length + 1))


@pytest.mark.parametrize(
    ("part", "value", "field"),
    [
        ("request", b'{"model": "m", "nonsense": 1}', "nonsense"),
        ("request", b'{"model": "m", "temperature": 9}', "temperature"),
        ("input", b'[{"type": "image_generation_call"}]', "input[0]"),
        ("input", b"{}", "input"),
        ("history", b"nothing", "history"),
    ],
)
def test_invalid_turn_is_rejected_with_its_path(part: str, value: bytes, field: str) -> None:
    parts = {"request": b'{"model": "m"}', "history": b"[]", "input": b"[]"} | {part: value}
    with pytest.raises(InvalidRequest) as caught:
        pipeline(Turn("resp_1", 0, parts["request"], parts["history"], parts["input"]))
    assert caught.value.field == field


# ---- properties ----

IDS = st.lists(st.integers(3, 49_151) | st.sampled_from([173, 242, 10813, 3, 5]), max_size=40)


def cut(ids: Sequence[int], random: Random) -> Iterator[list[int]]:
    """Cuts ids into messages of random sizes."""
    rest = list(ids)
    while rest:
        size = random.randint(1, len(rest))
        yield rest[:size]
        rest = rest[size:]


def joined(log: Sequence[Object]) -> list[Object]:
    """A log without sequence numbers and with adjacent deltas joined, because both depend on the cut."""
    plain: list[Object] = []
    for event in log:
        bare = {name: value for name, value in event.items() if name != "sequence_number"}
        if plain and "delta" in bare and "delta" in plain[-1]:
            plain[-1]["delta"] += bare["delta"]
        else:
            plain.append(bare)
    return plain


@given(ids=IDS, end=st.booleans(), error=st.booleans(), limit=st.integers(1, 60), seed=st.integers(0, 2**32))
def test_cut_of_a_stream_does_not_change_its_events(
    ids: list[int], end: bool, error: bool, limit: int, seed: int
) -> None:
    stream = [*ids, END_ID] if end else ids
    one_by_one, _ = play([[token] for token in stream], error=error, max_output_tokens=limit)
    recut, _ = play(list(cut(stream, Random(seed))), error=error, max_output_tokens=limit)
    assert joined(events_of(recut)) == joined(events_of(one_by_one))


@given(ids=IDS, end=st.booleans(), error=st.booleans(), limit=st.integers(1, 60))
def test_folded_events_equal_the_final_record(ids: list[int], end: bool, error: bool, limit: int) -> None:
    stream = [*ids, END_ID] if end else ids
    batches, _ = play([[token] for token in stream], error=error, max_output_tokens=limit)
    log = events_of(batches)
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert [event["type"] in events.TERMINAL for event in log].count(True) == 1
    *before, last = batches
    assert last.final is not None
    assert error or last.count == 1
    assert all(batch.final is None for batch in before)
    stored = loads(last.final.body) | {"output": loads(last.final.output_items)}
    assert stored == fold(log) == log[-1]["response"]
    assert stored["usage"]["output_tokens"] == min(len(stream), limit)


@given(IDS)
def test_deltas_join_to_the_text_of_the_model(ids: list[int]) -> None:
    batches, _ = play([[token] for token in ids])
    whole = "".join(event["delta"] for event in events_of(batches) if "delta" in event)
    assert whole == text_of(ended(batches))
    complete = [token for token in ids if token not in tokenizer().added]
    if len(complete) == len(ids) and "\ufffd" not in tokenizer().decode(ids):
        assert whole == tokenizer().decode(ids)


def asking(
    *, controls: frozenset[str] = ALL_CONTROLS, level: Level = Level.TOKENS, **request: Any
) -> GenerationRequest:
    """The request that the engine receives."""
    made = pipeline_of(model(lora="7"), turn("Hi", **request), controls=controls, ids=SequentialIds(), level=level)
    return made.start()[1]


def test_nvext_parameters_are_sent_to_the_engine() -> None:
    asked = asking(
        seed=5, stop=["a", "b"], nvext={"top_k": 3, "min_p": 0.5, "ignore_eos": True}, controls=ABLE, temperature=0.5
    )
    assert (asked.sampling.seed, asked.sampling.top_k, asked.sampling.min_p) == (5, 3, 0.5)
    assert (asked.stop, asked.stop_ids, asked.stop_tokens, asked.ignore_eos) == (("a", "b"), (), (), True)


def test_greedy_overrides_the_temperature() -> None:
    batches, asked = play([[END_ID]], temperature=0.9, nvext={"greedy": True})
    assert asked.sampling.temperature == 0.0
    assert ended(batches)["temperature"] == 0.0


def test_adapter_of_the_profile_is_sent_to_the_engine() -> None:
    assert asking().lora == "7"


@pytest.mark.parametrize(
    ("request_", "level", "field"),
    [
        ({"nvext": {"ignore_eos": True}}, Level.TOKENS, "nvext.ignore_eos"),
        ({"nvext": {"guided_regex": "a"}}, Level.TOKENS, "nvext.guided_regex"),
    ],
)
def test_parameter_that_the_engine_lacks_is_rejected(request_: Object, level: Level, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        asking(level=level, **request_)
    assert (caught.value.field, caught.value.code) == (field, "unsupported_parameter")


def test_stop_text_is_found_in_token_ids_without_engine_support() -> None:
    batches, _ = play([encoded("Hello STOP there")], stop="STOP")
    assert text_of(ended(batches)) == "Hello "
    assert ended(batches)["status"] == "completed"


# ---- Images ----

SEEING = (
    "{% for m in messages %}{% for p in m.content %}"
    "{{ '[IMG]' if p.type == 'image' else p.text }}{% endfor %}{% endfor %}"
)
URL = "https://a.example/x"


def asked_with(
    *parts: str | Object,
    sight: Sight = Sight.NATIVE,
    level: Level = Level.TEXT,
    controls: frozenset[str] = ALL_CONTROLS | {"images"},
    downloads: Downloads = NOTHING,
) -> GenerationRequest:
    prompt = PromptEncoder(JinjaTemplate(SEEING, special_tokens={}), tokenizer())
    served = model(prompt=prompt, sight=sight, image_tokens=1000)
    given_turn = replace(turn(), input=dumps([user(*parts)]))
    made = pipeline_of(served, given_turn, controls=controls, ids=SequentialIds(), level=level, downloads=downloads)
    return made.start()[1]


def test_text_engine_gets_images_in_the_order_of_their_marks() -> None:
    asked = asked_with("a", image_part(URL), "b", image_part(), downloads={URL: Download(GIF)})
    assert (text_in(asked), images_in(asked)) == ("a[IMG]b[IMG]", (GIF, PNG))
    assert asked.max_tokens == 8192 - 2000 - asked.prompt_as(TextPrompt).tokens


def test_chat_engine_gets_images_in_its_messages() -> None:
    asked = asked_with("a", image_part(), level=Level.CHAT)
    (sent,) = asked.prompt_as(ChatPrompt).messages
    assert sent["content"][1] == {
        "type": "image_url",
        "image_url": {"url": data_url(PNG)},
    }


def test_image_for_an_engine_without_images_is_rejected_or_described() -> None:
    with pytest.raises(InvalidRequest, match="sees no images") as caught:
        asked_with("a", image_part(), controls=ALL_CONTROLS, level=Level.TOKENS)
    assert caught.value.field == "input[0].content[1]"
    asked = asked_with("a", image_part(), sight=Sight.PLACEHOLDER, controls=ALL_CONTROLS, level=Level.TOKENS)
    assert tokenizer().decode(ids_in(asked)) == "a[image: 3x2 png, not shown to this model]"


def test_image_that_was_not_downloaded_is_rejected() -> None:
    with pytest.raises(InvalidRequest) as caught:
        asked_with(image_part(URL))
    assert (caught.value.field, caught.value.code) == ("input[0].content[0].image_url", "failed_to_download_image")


AGE: Object = {"type": "object", "properties": {"age": {"type": "integer"}}}
AGE_FORMAT: Object = {"format": {"type": "json_schema", "name": "age", "schema": AGE}}


@pytest.mark.parametrize(
    ("said", "request_", "differs"),
    [
        ('{"age": 5}', {"text": AGE_FORMAT}, False),
        ('{"age": "five"}', {"text": AGE_FORMAT}, True),
        ("five", {"text": AGE_FORMAT}, True),
        ("five", {"text": {"format": {"type": "json_object"}}}, True),
        ("{}", {"text": {"format": {"type": "json_object"}}}, False),
        ("five", {"text": {"verbosity": "low"}}, False),
        ("five", {}, False),
        (
            '{"age": "five"}',
            {"text": AGE_FORMAT, "max_output_tokens": 2},
            False,
        ),  # cut off: not checked, because the client sees the status
    ],
)
def test_answer_that_does_not_match_its_format_is_noticed_and_sent(said: str, request_: Object, differs: bool) -> None:
    made = pipeline_of(model(), turn("Hi", **request_), controls=ABLE, ids=SequentialIds())
    batches = made.start()[0] + made.receive([TokenChunk([*encoded(said), END_ID])])
    response = ended(batches + made.finish(completed_at=COMPLETED_AT))
    assert said.startswith(text_of(response))
    assert response["status"] == ("incomplete" if "max_output_tokens" in request_ else "completed")
    assert (made.mismatch is not None) == differs


def test_answer_that_may_not_be_checked_is_sent_unchecked() -> None:
    asked = turn("Hi", text=AGE_FORMAT)
    made = pipeline_of(model(), asked, controls=ABLE, ids=SequentialIds(), may_check=lambda _nodes: False)
    made.start()
    made.receive([TokenChunk([*encoded("five"), END_ID])])
    assert ended(made.finish(completed_at=COMPLETED_AT))["status"] == "completed"
    assert (made.mismatch, made.is_unchecked) == (None, True)


def test_failed_turn_has_no_format_mismatch() -> None:
    made = pipeline_of(model(), turn("Hi", text=AGE_FORMAT), controls=ABLE, ids=SequentialIds())
    made.start()
    made.receive([TokenChunk(encoded("five"))])
    made.fail(EngineTimeout("No token came."))
    assert made.mismatch is None


def test_response_schema_outside_the_strict_subset_is_rejected() -> None:
    bad = AGE_FORMAT["format"] | {"strict": True}
    with pytest.raises(InvalidRequest, match="Invalid schema for response_format 'age'") as caught:
        pipeline(turn("Hi", text={"format": bad}))
    assert (caught.value.field, caught.value.code) == ("text.format.schema", "invalid_json_schema")


def test_response_echoes_the_whole_text_format() -> None:
    batches, _ = play([encoded("{}")], text=AGE_FORMAT)
    for event in (events_of(batches)[0], events_of(batches)[-1]):
        assert event["response"]["text"] == {
            "format": AGE_FORMAT["format"] | {"strict": False, "description": None},
            "verbosity": "medium",
        }


def test_output_that_a_filter_broke_off_is_incomplete_for_that_reason() -> None:
    made = pipeline_of(model(), turn("Hi"), controls=ALL_CONTROLS, ids=SequentialIds(), level=Level.CHAT)
    batches = made.start()[0]
    batches += made.receive([ChatChunk([Text("Well")], FinishReason.CONTENT_FILTER, ReportedUsage(3, 1))])
    batches += made.finish(completed_at=9)
    response = fold([event for batch in batches for event in events.decode(batch.frames)])
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "content_filter"})
    assert (response["output"][0]["status"], response["usage"]["output_tokens"]) == ("incomplete", 1)


@pytest.mark.parametrize("end", [[END_ID], []])  # TensorRT-LLM does not deliver its `end_id`
@pytest.mark.parametrize("resumed", [0, 4])
def test_next_turn_extends_the_ids_that_the_engine_wrote(end: list[int], resumed: int) -> None:
    """Also where another translator received the first ids of the answer."""
    served = replace(model(), prompt=uncached_prompts())
    written = [token_id for letter in "An answer" for token_id in encoded(letter)]
    resume = Resume(2, written[:resumed]) if resumed else None
    made = pipeline_of(served, turn("Hi"), controls=ABLE, ids=SequentialIds(), resume=resume)
    made.start()
    made.receive([TokenChunk([*written[resumed:], *end], finish=None if end else FinishReason.STOP)])
    made.finish(completed_at=COMPLETED_AT)
    engine = [*prompt_ids(served, turn("Hi")), *written]
    history = [message("user", "Hi"), message("assistant", "An answer")]
    _, following = pipeline(turn("And?", history=history), served).start()
    assert list(ids_in(following))[: len(engine)] == engine
