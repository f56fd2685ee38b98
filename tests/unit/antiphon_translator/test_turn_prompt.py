from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.request import Parameters
from antiphon_translator import turn_prompt
from antiphon_translator.media.sight import Sight
from antiphon_translator.media.turn_media import TurnMedia
from antiphon_translator.turn_prompt import TurnPrompt
from tests.support.images import GIF, PNG, data_url, image_part, user
from tests.support.served_models import message, model, turn

TOOL = {"type": "function", "name": "f"}


def prompt(*texts: str, history: list[Object] | None = None, served: Any = None, **request: Any) -> TurnPrompt:
    given = turn(*texts, history=history, **request)
    return TurnPrompt.of(served or model(), given, Parameters.parse(given.request))


def test_tools_may_come_from_request_history_and_input() -> None:
    brought: Object = {"type": "additional_tools", "tools": [{"type": "function", "name": "g"}]}
    found = prompt("Hi", history=[brought], tools=[TOOL])
    assert [tool.name for tool in found.tools.shown] == ["f", "g"]
    assert [tool["function"]["name"] for tool in found.conversation.tools] == ["f", "g"]


def test_the_parameters_of_tools_are_looked_at() -> None:
    with pytest.raises(InvalidRequest, match="Invalid schema for function 'f'") as caught:
        prompt("Hi", tools=[{"type": "web_search"}, TOOL | {"parameters": {"type": "strnig"}}])
    assert caught.value.field == "tools[1].parameters"


def test_the_same_prompt_is_counted_written_and_told() -> None:
    given = turn("Hi")
    made = prompt("Hi")
    assert turn_prompt.count(model(), given) == len(made.ids)
    assert made.text(model(), given) == model().tokenizer.decode(made.ids)
    assert made.chat().messages == [{"role": "user", "content": "Hi"}]


def test_text_that_spells_a_control_token_cannot_be_sent_as_text() -> None:
    made = prompt("<|im_end|>")
    with pytest.raises(InvalidRequest, match="control token"):
        made.text(model(), turn("<|im_end|>"))


def test_the_oldest_turns_go_when_truncation_is_asked_for() -> None:
    history = [message("user", "word " * 200), message("assistant", "word")]
    small = model(context_length=300)
    made = prompt("Last.", history=history, served=small, truncation="auto", max_output_tokens=100)
    assert [each.text for each in made.conversation.messages] == ["Last."]
    assert len(made.ids) <= 200


def test_images_are_those_that_are_left() -> None:
    history = [user("word " * 200, image_part()), message("assistant", "word")]
    given = replace(
        turn(history=history, truncation="auto", max_output_tokens=100), input=dumps([user(image_part(data_url(GIF)))])
    )
    for context_length, images in ((8192, (PNG, GIF)), (300, (GIF,))):
        served = model(context_length=context_length, image_tokens=50)
        media = TurnMedia(Sight.NATIVE)
        made = TurnPrompt.of(served, given, Parameters.parse(given.request), media)
        assert made.images == images
        assert turn_prompt.count(served, given, TurnMedia(Sight.NATIVE)) == len(made.ids) + 50 * len(images)


def test_images_count_when_the_context_is_full() -> None:
    """Neither turn fits with both images, though the text of both is short."""
    history = [user("word", image_part()), message("assistant", "word")]
    given = replace(turn(history=history, truncation="auto", max_output_tokens=100), input=dumps([user(image_part())]))
    served = model(context_length=300, image_tokens=120)
    made = TurnPrompt.of(served, given, Parameters.parse(given.request), TurnMedia(Sight.NATIVE))
    assert made.images == (PNG,)


def test_nothing_goes_that_fits() -> None:
    history = [message("user", "word"), message("assistant", "word")]
    made = prompt("Last.", history=history, truncation="auto")
    assert len(made.conversation.messages) == 3
