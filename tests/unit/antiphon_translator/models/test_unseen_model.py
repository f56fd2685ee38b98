from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object
from antiphon_translator.conversation import Conversation
from antiphon_translator.engines import openai_wire
from antiphon_translator.generation import SWITCHES, UNLIMITED, ChatPrompt, Level
from antiphon_translator.models import served_model, unseen_model
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.turn import turn_prompt
from tests.support.pipelines import pipeline_of
from tests.support.served_models import turn


@pytest.fixture
def model() -> ServedModel:
    return served_model.load(ModelProfile(name="m", endpoint="http://t/v1", engine="openai_chat"))


def body_for(model: ServedModel, **request: Any) -> Object:
    """The body of the request to the server."""
    made = pipeline_of(
        model, turn("Hi " * 100_000, **request), controls=frozenset(), ids=SequentialIds(), level=Level.CHAT
    )
    return openai_wire.body(made.start()[1], "m", openai_wire.PLAIN)


def test_request_without_a_limit_leaves_the_length_to_the_server(model: ServedModel) -> None:
    assert "max_tokens" not in body_for(model)
    assert body_for(model, max_output_tokens=7)["max_tokens"] == 7


def test_response_without_a_limit_shows_no_max_output_tokens(model: ServedModel) -> None:
    made = pipeline_of(model, turn("Hi"), controls=frozenset(), ids=SequentialIds(), level=Level.CHAT)
    assert made.start()[1].max_tokens == UNLIMITED
    (ended,) = made.finish(completed_at=9)[-1:]
    assert ended.final is not None
    assert b'"max_output_tokens":null' in ended.final.body


def test_truncation_and_counting_without_a_tokenizer_are_rejected(model: ServedModel) -> None:
    with pytest.raises(InvalidRequest, match="no tokenizer here, and 'truncation'") as caught:
        body_for(model, truncation="auto")
    assert caught.value.field == "truncation"
    with pytest.raises(InvalidRequest, match="no tokenizer here, and counting needs one"):
        turn_prompt.count(model, turn("Hi"))
    with pytest.raises(InvalidRequest, match="no tokenizer here"):
        unseen_model.UnseenTemplate().render(Conversation(()), now_s=0)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("ab\ncdefgh", 3), ("äöüß", 1)])
def test_token_count_without_a_tokenizer_is_estimated(text: str, tokens: int) -> None:
    assert len(unseen_model.facts().tokenizer.encode(text)) == tokens


@pytest.mark.parametrize(
    ("controls", "effort", "echoed"),
    [
        ({SWITCHES}, "max", b'"high"'),
        ({SWITCHES}, "none", b'"none"'),
        (set(), "max", b"null"),
        (set(), "low", b"null"),
        (set(), "none", b"null"),
    ],
)
def test_response_echoes_the_effort_that_an_unseen_template_gets(
    model: ServedModel, controls: set[str], effort: str, echoed: bytes
) -> None:
    asked = turn("Hi", reasoning={"effort": effort})
    made = pipeline_of(model, asked, controls=frozenset(controls), ids=SequentialIds(), level=Level.CHAT)
    made.start()
    (ended,) = made.finish(completed_at=9)[-1:]
    assert ended.final is not None
    assert b'"reasoning":{"effort":%b,"summary":null}' % echoed in ended.final.body


def test_highest_effort_is_sent_to_an_unseen_template_as_high(model: ServedModel) -> None:
    made = pipeline_of(
        model, turn("Hi", reasoning={"effort": "max"}), controls=frozenset(), ids=SequentialIds(), level=Level.CHAT
    )
    chat = made.start()[1].prompt_as(ChatPrompt)
    assert (chat.switches or {})["reasoning_effort"] == "high"


def test_effort_none_sends_all_known_reasoning_switches(model: ServedModel) -> None:
    made = pipeline_of(
        model, turn("Hi", reasoning={"effort": "none"}), controls=frozenset(), ids=SequentialIds(), level=Level.CHAT
    )
    chat = made.start()[1].prompt_as(ChatPrompt)
    assert chat is not None
    assert chat.switches == {"enable_thinking": False, "thinking": False}
