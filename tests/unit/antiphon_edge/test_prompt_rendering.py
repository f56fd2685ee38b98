from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.limits import BODY_BYTES_MAX
from antiphon_edge.prompt_rendering import render, rendered_bytes_max, variables_of

IMAGE: Object = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}


def message(content: Any, **more: Any) -> Object:
    return {"role": "user", "content": content} | more


def text(value: str, **more: Any) -> Object:
    return {"type": "input_text", "text": value} | more


def input_of(content: Any, **values: Any) -> Any:
    """The content of the single message of a prompt, rendered with values."""
    (said,) = render("pmpt_1", {"input": [message(content)]}, values).input
    return said["content"]


def test_variables_are_named_once_and_in_order() -> None:
    content = {
        "instructions": "Speak {{ language }}.",
        "input": [message("{{city}} in {{language}}"), message([text("{{when}}"), IMAGE, text("{{city}}")])],
    }
    assert variables_of(content) == ["language", "city", "when"]


@pytest.mark.parametrize("given", ["{city}", "{{}}", "{{ 1st }}", "{{a b}}", "{{city", "{{" + "x" * 65 + "}}"])
def test_braces_that_are_no_variable_stay_text(given: str) -> None:
    assert variables_of({"instructions": given}) == []
    assert render("pmpt_1", {"instructions": given}, {}).instructions == given


def test_texts_take_the_place_of_variables() -> None:
    content = {"instructions": "Speak {{language}}.", "input": [message("{{city}}, {{city}}!", role="developer")]}
    found = render("pmpt_1", content, {"language": text("Latin"), "city": "Roma"})
    assert found.instructions == "Speak Latin."
    assert list(found.input) == [{"role": "developer", "content": "Roma, Roma!"}]


def test_a_value_is_not_read_as_a_template() -> None:
    assert input_of("{{a}}{{b}}", a="{{b}}", b="x") == "{{b}}x"


def test_an_image_becomes_a_part_between_the_texts() -> None:
    assert input_of("See {{picture}} now", picture=IMAGE) == [text("See "), IMAGE, text(" now")]
    assert input_of("{{picture}}", picture=IMAGE) == [IMAGE]
    assert input_of([text("{{picture}}{{what}}", kept=1), IMAGE], picture=IMAGE, what="x") == [
        IMAGE,
        text("x", kept=1),
        IMAGE,
    ]


@pytest.mark.parametrize("content", ["See {{picture}}", [text("See {{picture}}", type="output_text")]])
def test_an_image_in_an_assistant_message_is_rejected(content: Any) -> None:
    with pytest.raises(InvalidRequest, match="'picture'") as raised:
        render("pmpt_1", {"input": [message(content, role="assistant")]}, {"picture": IMAGE})
    assert (raised.value.field, raised.value.code) == ("prompt.variables.picture", "invalid_type")


def test_texts_take_the_place_of_variables_in_an_assistant_message() -> None:
    content = {"input": [message("In {{city}}", role="assistant")]}
    found = render("pmpt_1", content, {"city": text("Roma")})
    assert list(found.input) == [{"role": "assistant", "content": "In Roma"}]


def test_a_prompt_without_variables_is_as_it_was_written() -> None:
    parts = [text(""), text("a"), IMAGE]
    assert input_of(parts) == parts
    assert render("pmpt_1", {"input": [message("a")]}, {}).instructions is None


@pytest.mark.parametrize(
    ("values", "name", "code"),
    [
        ({}, "city", "missing_required_parameter"),
        ({"city": "Roma", "town": "x"}, "town", "unknown_parameter"),
        ({"city": IMAGE}, "city", "invalid_type"),
    ],
)
def test_missing_unknown_or_invalid_values_are_rejected_by_name(values: Any, name: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        render("pmpt_1", {"instructions": "In {{city}}"}, values)
    assert (raised.value.field, raised.value.code) == (f"prompt.variables.{name}", code)
    assert f"'{name}'" in raised.value.message


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ({"instructions": "{{a}}" * 11}, "x" * 2**20),
        ({"instructions": "{{a}}" * 11}, text("é" * 2**19)),
        ({"input": [message("{{a}}")] * 11}, "x" * 2**20),
        ({"input": [message([text(" {{a}}" * 200, more="x" * 2**16)])]}, IMAGE),
        ({"input": [message([text("{{a}}{{a}}")])] * 6}, IMAGE | {"image_url": "data:image/png;base64," + "A" * 2**20}),
    ],
)
def test_a_prompt_that_repeats_a_long_value_too_often_is_rejected(content: Object, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=f"more than {BODY_BYTES_MAX} bytes") as raised:
        render("pmpt_1", content, {"a": value})
    assert (raised.value.field, raised.value.code) == ("prompt.variables", "string_above_max_length")


@pytest.mark.parametrize("media", [False, True])
def test_a_prompt_is_never_larger_than_was_estimated(media: bool) -> None:
    content: Object = {"instructions": "{{a}}, {{ b }}", "input": [message("{{a}}"), message([text("{{b}}{{{b}}")])]}
    values: dict[str, Any] = {"a": "é" * 100, "b": text('"' * 200)}
    if media:
        content["input"].append(message([text(" {{c}}" * 20, more="x" * 1_000)]))
        values["c"] = IMAGE
    found = render("pmpt_1", content, values)
    assert len(dumps([found.instructions, found.input])) <= rendered_bytes_max(dumps(content), values)
