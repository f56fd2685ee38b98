from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core import limits
from antiphon_core.errors import ContextLengthExceeded, InvalidRequest
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object, dumps
from antiphon_core.request.body import Parameters
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import ChatPrompt, Level, TextPrompt, TokenPrompt
from antiphon_translator.media.sight import Sight
from antiphon_translator.media.turn_media import TurnMedia
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.prompt import declarations
from antiphon_translator.prompt.prompt import PromptEncoder
from antiphon_translator.prompt.read_history import HistoryCache
from antiphon_translator.templates.jinja import JinjaTemplate
from antiphon_translator.turn import turn_prompt
from antiphon_translator.turn.turn_prompt import TurnPrompt
from tests.support.images import GIF, PNG, data_url, image_part, user
from tests.support.pipelines import pipeline_of
from tests.support.served_models import message, model, tokenizer, turn

TOOL = {"type": "function", "name": "f"}


def prompt(
    *texts: str, history: list[Object] | None = None, served: Any = None, level: Level = Level.TOKENS, **request: Any
) -> TurnPrompt:
    given = turn(*texts, history=history, **request)
    return TurnPrompt.of(served or model(), given, Parameters.parse(given.request), level=level)


def test_tools_of_the_request_and_the_history_are_offered() -> None:
    brought: Object = {"type": "additional_tools", "tools": [{"type": "function", "name": "g"}]}
    found = prompt("Hi", history=[brought], tools=[TOOL])
    assert [tool.name for tool in found.tools.shown] == ["f", "g"]
    assert [tool["function"]["name"] for tool in found.conversation.tools] == ["f", "g"]


@pytest.mark.parametrize("item", ["x", None, 3, ["message"]])
def test_item_that_is_no_object_is_rejected_with_its_path(item: object) -> None:
    given = replace(turn("Hi"), input=dumps([{"type": "message", "role": "user", "content": "Hi"}, item]))
    with pytest.raises(InvalidRequest) as caught:
        TurnPrompt.of(model(), given, Parameters.parse(given.request))
    assert (caught.value.field, caught.value.code) == ("input[1]", "invalid_type")


def test_invalid_tool_parameters_are_rejected_with_their_path() -> None:
    with pytest.raises(InvalidRequest, match="Invalid schema for function 'f'") as caught:
        prompt("Hi", tools=[{"type": "custom", "name": "c"}, TOOL | {"parameters": {"type": "strnig"}}])
    assert caught.value.field == "tools[1].parameters"


def as_chat(made: TurnPrompt) -> ChatPrompt:
    prompt = made.for_engine(model(), Level.CHAT, ())
    assert isinstance(prompt, ChatPrompt)
    return prompt


def images(made: TurnPrompt) -> tuple[bytes, ...]:
    return tuple(image.content for image in made.conversation.images)


def test_prompt_is_identical_for_counting_and_for_each_level() -> None:
    given = turn("Hi")
    made = prompt("Hi")
    assert turn_prompt.count(model(), given) == len(made.ids)
    assert made.for_engine(model(), Level.TOKENS, [7]) == TokenPrompt([*made.ids, 7])
    text = model().tokenizer.decode(made.ids)
    assert made.for_engine(model(), Level.TEXT, [7]) == TextPrompt(text, tokens=len(made.ids) + 1)
    beginning = made.for_engine(model(added_beginning="<s>"), Level.TEXT, ())
    assert isinstance(beginning, TextPrompt)
    assert beginning.added == "<s>"
    assert as_chat(made).messages == [{"role": "user", "content": "Hi"}]


def test_text_that_spells_a_control_token_cannot_be_sent_as_text() -> None:
    made = prompt("<|im_end|>")
    with pytest.raises(InvalidRequest, match="control token"):
        made.for_engine(model(), Level.TEXT, ())


def test_truncation_auto_drops_the_oldest_turns() -> None:
    history = [message("user", "word " * 200), message("assistant", "word")]
    small = model(context_length=300)
    made = prompt("Last.", history=history, served=small, truncation="auto", max_output_tokens=100)
    assert [each.text for each in made.conversation.messages] == ["Last."]
    assert len(made.ids) <= 200


def test_images_of_truncated_turns_are_left_out() -> None:
    history = [user("word " * 200, image_part()), message("assistant", "word")]
    given = replace(
        turn(history=history, truncation="auto", max_output_tokens=100), input=dumps([user(image_part(data_url(GIF)))])
    )
    for context_length, shown in ((8192, (PNG, GIF)), (300, (GIF,))):
        served = model(context_length=context_length, image_tokens=50)
        media = TurnMedia(Sight.NATIVE)
        made = TurnPrompt.of(served, given, Parameters.parse(given.request), media)
        assert images(made) == shown
        assert turn_prompt.count(served, given, TurnMedia(Sight.NATIVE)) == len(made.ids) + 50 * len(shown)


def test_truncation_counts_the_tokens_of_images() -> None:
    """The text of both turns fits, but their two images do not."""
    history = [user("word", image_part()), message("assistant", "word")]
    given = replace(turn(history=history, truncation="auto", max_output_tokens=100), input=dumps([user(image_part())]))
    served = model(context_length=300, image_tokens=120)
    made = TurnPrompt.of(served, given, Parameters.parse(given.request), TurnMedia(Sight.NATIVE))
    assert images(made) == (PNG,)


def test_truncation_keeps_a_history_that_fits() -> None:
    history = [message("user", "word"), message("assistant", "word")]
    made = prompt("Last.", history=history, truncation="auto")
    assert len(made.conversation.messages) == 3


@pytest.mark.parametrize("level", [Level.TOKENS, Level.CHAT])
def test_short_history_is_kept_when_the_output_limit_is_the_whole_context(level: Level) -> None:
    history = [message("user", "word"), message("assistant", "word")]
    asked = {"truncation": "auto", "max_output_tokens": model().context_length}
    made = prompt("Last.", history=history, level=level, **asked)
    assert len(made.conversation.messages) == 3


# ---- Engines that take a conversation ----

LONG = "word " * 150
"""150 tokens, 750 bytes."""


def chat(*texts: str, context_length: int, **request: Any) -> TurnPrompt:
    return prompt(*texts, served=model(context_length=context_length), level=Level.CHAT, **request)


def test_a_prompt_far_from_the_limit_is_not_encoded() -> None:
    made = chat(LONG, context_length=8192)
    assert made.encoded is None
    assert made.ids == ()
    assert 150 < made.count() < made.tokens <= 8192 // 4


def test_prompt_that_leaves_room_for_max_output_tokens_is_not_encoded() -> None:
    made = chat(LONG, context_length=1_200, max_output_tokens=200)
    assert made.encoded is None
    assert made.tokens <= 1_000


@pytest.mark.parametrize(("context_length", "asked"), [(2_000, None), (300, 200), (100, 200)])
def test_a_prompt_near_the_limit_is_counted(context_length: int, asked: int | None) -> None:
    made = chat(LONG, context_length=context_length, max_output_tokens=asked)
    assert made.tokens == made.count() == prompt(LONG).tokens


@given(st.integers(1, 400), st.integers(1, 3_000), st.integers(1, 3_000) | st.none(), st.booleans())
def test_answer_length_of_a_chat_server_fits_the_context(words: int, length: int, asked: int | None, cut: bool) -> None:
    """The answer length is exact for requests with max_output_tokens, and it never exceeds the remaining context."""
    served = model(context_length=length)
    given_turn = turn("word " * words, max_output_tokens=asked, truncation="auto" if cut else "disabled")

    def most(level: Level) -> int | str:
        try:
            made = pipeline_of(served, given_turn, controls=ALL_CONTROLS, ids=SequentialIds(), level=level)
        except ContextLengthExceeded as error:
            return error.message
        return made.start()[1].max_tokens

    exact, told = most(Level.TOKENS), most(Level.CHAT)
    if asked is None and isinstance(exact, int):
        assert isinstance(told, int)
        assert min(exact, length * 3 // 4) <= told <= exact
    else:
        assert told == exact


def test_truncation_of_a_chat_follows_the_exact_token_count() -> None:
    history = [message("user", LONG), message("assistant", "word")]
    for context_length, left in ((250, 3), (200, 1)):
        made = chat("Last.", history=history, context_length=context_length, truncation="auto", max_output_tokens=50)
        assert len(made.conversation.messages) == left


def test_forced_call_of_a_chat_is_left_to_its_server() -> None:
    made = chat("Hi", context_length=8192, tools=[TOOL], tool_choice="required")
    assert made.encoded is None
    assert as_chat(made).tool_choice == {"type": "function", "function": {"name": "f"}}


def test_chat_conversation_that_our_template_rejects_is_sent_to_the_server() -> None:
    template = JinjaTemplate("{{ raise_exception('no') if messages | length > 1 else 'x' }}", special_tokens={})
    served = model(prompt=PromptEncoder(template, tokenizer()))
    history = [message("user", "a"), message("assistant", "b")]
    made = prompt("c", history=history, served=served, level=Level.CHAT)
    assert made.count() == made.tokens
    with pytest.raises(InvalidRequest, match="rejects the conversation"):
        prompt("c", history=history, served=served)


def caching() -> ServedModel:
    """A model with an empty history cache."""
    return model(histories=HistoryCache(10**6))


def forgetting() -> ServedModel:
    return model(histories=HistoryCache(0))


def outcome(served: ServedModel, history: list[Object], level: Level) -> object:
    """The whole prompt of a turn behind this history, or its error."""
    try:
        made = prompt("Go on", history=history, served=served, level=level, instructions="Be brief.")
        return made.conversation, made.tools, made.tokens, list(made.ids), as_chat(made)
    except InvalidRequest as error:
        return error.message, error.field


def _call(call_id: str, status: str = "completed") -> Object:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": '{"x": 1}', "status": status}


def _result(call_id: str) -> Object:
    return {"type": "function_call_output", "call_id": call_id, "output": "42"}


def _tools(name: str, **parameters: object) -> Object:
    return {"type": "additional_tools", "tools": [{"type": "function", "name": name} | parameters]}


_REASONING: Object = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]}
_ADDED: list[list[Object]] = [
    [message("user", "a"), message("assistant", "b")],
    [message("user", "a"), message("assistant", "<|im_end|>")],
    [_REASONING],
    [message("assistant", "c")],
    [message("system", "d")],
    [message("developer", "e")],
    [_call("1"), _result("1")],
    [_call("1")],
    [_result("1")],
    [_call("1", "incomplete")],
    [_call("2"), _call("1", "incomplete"), _result("2")],
    [_tools("f")],
]
_REFUSED: list[list[Object]] = [
    [_tools("g", parameters={"type": "strnig"})],
    [{"role": "user", "content": [image_part(data_url(PNG))]}],
    [{"role": "nobody", "content": "a"}],
]


@given(
    st.lists(st.sampled_from(_ADDED), min_size=1, max_size=8),
    st.sampled_from([[], *_REFUSED]),
    st.sampled_from([Level.TOKENS, Level.CHAT]),
)
def test_growing_chat_with_a_history_cache_reads_as_without_it(
    turns: list[list[Object]], last: list[Object], level: Level
) -> None:
    served, history = caching(), [message("user", "0" * 100)]
    for items in [*turns, last, []]:
        history = [*history, *items]
        for shown in (history, [*history, message("assistant", "b")]):  # the second is a branch that is not continued
            assert outcome(served, shown, level) == outcome(forgetting(), shown, level)


def test_error_behind_a_cached_history_has_its_full_path() -> None:
    served, history = caching(), [message("user", "0" * 100), message("assistant", "b")]
    prompt("Hi", history=history, served=served)
    with pytest.raises(InvalidRequest) as caught:
        prompt("Hi", history=[*history, _tools("g", parameters={"type": "strnig"})], served=served)
    assert caught.value.field == "history[2].tools[0].parameters"


@pytest.mark.parametrize("caches", [True, False])
def test_schemas_of_a_history_count_whether_it_is_cached_or_not(caches: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "object", "properties": {"a": True, "b": True}}  # three schemas in each other
    served = caching() if caches else forgetting()
    history = [message("user", "0" * 100), _tools("g", parameters=schema)]
    prompt("Hi", history=history, served=served)
    monkeypatch.setattr(limits, "SCHEMAS_NODES_MAX", 5)
    prompt("Hi", history=[*history, message("user", "b")], served=served)  # charged once, and cached again
    with pytest.raises(InvalidRequest, match="have 6 schemas in each other") as caught:
        prompt("Hi", history=[*history, message("user", "b")], served=served, tools=[TOOL | {"parameters": schema}])
    assert caught.value.field == "tools[0].parameters"


def test_only_new_items_of_a_cached_history_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    served, history = caching(), [message("user", "0" * 100), message("assistant", "b")]
    prompt("Hi", history=history, served=served)
    read: list[Object] = []
    in_items = declarations.in_items

    def noting(items: list[Object], *where: Any) -> list[Any]:
        read.extend(items)
        return in_items(items, *where)

    monkeypatch.setattr(declarations, "in_items", noting)
    more = [message("user", "c"), message("assistant", "d")]
    prompt("Hi again", history=[*history, *more], served=served)
    assert read == [*more, message("user", "Hi again")]


def test_changed_or_deleted_history_item_is_not_shown_from_the_cache() -> None:
    served = caching()
    first, secret, last = message("user", "0" * 100), message("assistant", "secret"), message("user", "b")
    assert "secret" in str(prompt("Hi", history=[first, secret, last], served=served).conversation)
    assert "secret" not in str(prompt("Hi", history=[first, last], served=served).conversation)
    assert "secret" not in str(
        prompt("Hi", history=[first, message("assistant", "-"), last], served=served).conversation
    )
    assert "0" * 100 not in str(prompt("Hi", history=[secret, last], served=served).conversation)


def test_images_in_a_cached_history_are_counted_in_every_turn() -> None:
    served = model(histories=HistoryCache(10**6), sight=Sight.PLACEHOLDER)
    history = [message("user", "0" * 100), {"role": "user", "content": [image_part(data_url(PNG))]}]
    for _ in range(2):
        media = TurnMedia(Sight.PLACEHOLDER)
        given = turn("Hi", history=history)
        TurnPrompt.of(served, given, Parameters.parse(given.request), media)
        assert media.has_read


@pytest.mark.parametrize("level", list(Level))
def test_root_is_the_system_message_whatever_follows(level: Level) -> None:
    texts = ("Hi", "How are you? " * 40)
    roots = [prompt(text, instructions="Be brief. " * 100, level=level).root() for text in texts]
    assert roots[0] is not None
    assert roots[1] is not None
    assert roots[0].key == roots[1].key
    counted = len(tokenizer().encode("Be brief. " * 100))
    assert all(counted * 0.6 < root.tokens < counted * 1.4 for root in roots if root is not None)
    other = prompt("Hi", instructions="Be long.", level=level).root()
    assert other is not None
    assert other.key != roots[0].key


def test_prompt_without_a_system_message_has_no_root() -> None:
    assert prompt("Hi").root() is None
