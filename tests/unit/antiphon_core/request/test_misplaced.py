from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.request import misplaced
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.chat import ChatRequest

CREATE: Object = {"model": "m", "input": "Hi"}
CHAT: Object = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
RENAMED = [
    *[(CreateRequest.parse, CREATE, name, like) for name, like in misplaced.IN_RESPONSES.items()],
    *[(ChatRequest.parse, CHAT, name, like) for name, like in misplaced.IN_CHAT.items()],
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


@pytest.mark.parametrize(
    ("replacements", "own"), [(misplaced.IN_RESPONSES, CreateRequest), (misplaced.IN_CHAT, ChatRequest)]
)
def test_no_parameter_of_an_api_is_taken_for_one_of_the_other(replacements: Mapping[str, str], own: Any) -> None:
    assert not set(replacements) & set(own.model_fields)
