from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.rejections import IN_CHAT, IN_RESPONSES, SERVER_SET, Unserved, anything, reject_unserved
from antiphon_edge.chat.body import ChatRequest

CREATE: Object = {"model": "m", "input": "Hi"}
CHAT: Object = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
RENAMED = [
    *[(CreateRequest.parse, CREATE, name, like) for name, like in IN_RESPONSES.items()],
    *[(ChatRequest.parse, CHAT, name, like) for name, like in IN_CHAT.items()],
]


@pytest.mark.parametrize(("parse", "body", "name", "like"), RENAMED)
def test_a_parameter_of_the_other_api_is_rejected_with_its_like(
    parse: Callable[[bytes], Any], body: Object, name: str, like: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(dumps(body | {name: 1}))
    assert (caught.value.field, caught.value.code) == (name, "unknown_parameter")
    assert like in caught.value.message


@pytest.mark.parametrize(
    ("parse", "body", "like"), [(CreateRequest.parse, CHAT, "'input'"), (ChatRequest.parse, CREATE, "'messages'")]
)
def test_a_body_of_the_other_api_is_rejected_with_the_hint(
    parse: Callable[[bytes], Any], body: Object, like: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"In this API, use {like}"):
        parse(dumps(body))


@pytest.mark.parametrize(("replacements", "own"), [(IN_RESPONSES, CreateRequest), (IN_CHAT, ChatRequest)])
def test_no_parameter_of_an_api_is_taken_for_one_of_the_other(replacements: Mapping[str, str], own: Any) -> None:
    assert not set(replacements) & set(own.model_fields)


@pytest.mark.parametrize("name", SERVER_SET)
@pytest.mark.parametrize(("parse", "body"), [(CreateRequest.parse, CREATE), (ChatRequest.parse, CHAT)])
def test_what_only_the_server_sets_is_rejected_by_its_name(parse: Any, body: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidRequest, match=name) as caught:
        parse(dumps(body | {name: "x"}))
    assert (caught.value.field, caught.value.code) == (name, "unknown_parameter")


UNSERVED = (
    Unserved("prompt", bool, "No prompts."),
    Unserved("image.shown", anything, "No images."),
    Unserved("n", lambda n: n != 1, "One is all.", "unsupported_value"),
)


NOTHING: dict[str, object] = {"prompt": None, "image": None, "n": None}


@pytest.mark.parametrize("members", [{"n": 1}, {"prompt": {}}, {"image": SimpleNamespace(shown=None)}])
def test_an_unserved_member_that_asks_for_nothing_is_accepted(members: dict[str, object]) -> None:
    reject_unserved(UNSERVED, SimpleNamespace(**NOTHING | members))


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"prompt": {"id": "p"}, "n": 2}, ("No prompts.", "prompt", "unsupported_parameter")),
        ({"image": SimpleNamespace(shown=""), "n": 2}, ("No images.", "image.shown", "unsupported_parameter")),
        ({"n": 2}, ("One is all.", "n", "unsupported_value")),
    ],
)
def test_the_first_unserved_member_is_rejected_by_name(members: dict[str, object], told: tuple[str, str, str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        reject_unserved(UNSERVED, SimpleNamespace(**NOTHING | members))
    assert (caught.value.message, caught.value.field, caught.value.code) == told


def test_an_unserved_member_of_a_part_is_rejected_with_its_path() -> None:
    with pytest.raises(InvalidRequest) as caught:
        reject_unserved(UNSERVED, SimpleNamespace(**NOTHING | {"n": 2}), within="parts[1]")
    assert caught.value.field == "parts[1].n"
