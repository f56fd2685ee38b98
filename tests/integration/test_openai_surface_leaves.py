"""Every leaf of the request types of OpenAI's SDK is implemented, rejected by name, or harmless by definition.

`openai_surface.toml` says which, with the test or the reason, and has no default: a new leaf of an upgraded package
fails here until the file has it. The leaves are requested over HTTP, at every place where a request can have them: a
refused leaf is a 400 that names it, and any other leaf is not rejected.
"""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from openai.types import conversations, responses
from openai.types.responses import response_retrieve_params
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from antiphon_core.jsons import dumps
from tests.support.http import Http
from tests.support.scripted_system import MODEL, SEER, scripted_system
from tests.support.sdk_surface import Leaf, leaves

ROOT = Path(__file__).parents[2]
REFUSALS = {"unsupported_parameter", "unsupported_value", "unknown_parameter"}
LACKED = {"include=message.output_text.logprobs"}
"""Options that are rejected only because the scripted engine lacks them. Other engines serve them."""
USER = {"role": "user", "content": "Hi"}

BODIES: Mapping[str, Any] = {
    "compact": responses.ResponseCompactParams,
    "input_tokens": responses.InputTokenCountParams,
    "retrieve": response_retrieve_params.ResponseRetrieveParamsBase,
    "input_items": responses.InputItemListParams,
    "conversation": conversations.ConversationCreateParams,
    "conversation_update": conversations.ConversationUpdateParams,
    "items": conversations.ItemCreateParams,
    "items_list": conversations.ItemListParams,
    "items_retrieve": conversations.ItemRetrieveParams,
}
"""Bodies and queries of the other operations: those of their members that a create request does not have."""


@dataclass(frozen=True)
class Rows:
    """The rows of the file, one for each leaf: the test that proves it, or None; and the reason."""

    done: Mapping[str, str]
    refused: Mapping[str, str | None]
    harmless: Mapping[str, str]

    @property
    def keys(self) -> list[str]:
        return [*self.done, *self.refused, *self.harmless]


def _read() -> Rows:
    table = tomllib.loads(Path(__file__).with_name("openai_surface.toml").read_text())
    assert set(table) == {"done", "refused", "harmless"}
    listed = [leaf for rows in table.values() for row in rows for leaf in row["leaves"]]
    assert len(listed) == len(set(listed)), "a leaf stands in two rows"
    return Rows(
        {leaf: row["test"] for row in table["done"] for leaf in row["leaves"]},
        {leaf: row.get("test") for row in table["refused"] for leaf in row["leaves"] if row["reason"]},
        {leaf: row["reason"] for row in table["harmless"] for leaf in row["leaves"]},
    )


ROWS = _read()


def _created() -> dict[str, Leaf]:
    return leaves(ResponseCreateParamsStreaming, whole=ROWS.keys)


def _others(created: Mapping[str, Leaf]) -> set[str]:
    """The leaves of all other requests."""
    found = {
        f"{name}:{key}"
        for name, body in BODIES.items()
        for key in leaves(body, whole=ROWS.keys, skip=("input", "items", "tools"))
        if key not in created
    }
    for event in get_args(responses.ResponsesClientEventParam):
        kind = event.__name__
        found |= {f"{kind}:{key}" for key in leaves(event, whole=ROWS.keys) if key not in created}
    return found


def test_every_leaf_has_a_row_and_every_row_a_leaf() -> None:
    created = _created()
    found = {*created, *_others(created)}
    assert (found - set(ROWS.keys), set(ROWS.keys) - found) == (set(), set())


def test_every_test_named_in_the_table_exists() -> None:
    for leaf, test in {**ROWS.done, **{leaf: test for leaf, test in ROWS.refused.items() if test}}.items():
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(), leaf


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    async with scripted_system() as system:
        yield system.http


async def _refused(http: Http, request: Mapping[str, Any]) -> str | None:
    """The path that a rejection names. None if the request is not rejected by name."""
    model = SEER if b"image_url" in dumps(request) else MODEL
    body = {"model": model, "input": "Hi", **{name: value for name, value in request.items() if name != "stream"}}
    if isinstance(body["input"], list):
        body["input"] = [*body["input"], USER]
    answer = await http.create(**body)
    if answer.status != 400 or answer.error["code"] not in REFUSALS:
        return None
    return str(answer.error["param"])


async def test_refused_leaves_are_rejected_by_name_at_every_place(http: Http) -> None:
    created = _created()
    for leaf, test in ROWS.refused.items():
        for path, request in created[leaf].places if test is None else ():
            named = await _refused(http, request)
            assert named is not None, (leaf, path)
            assert path == named or path.startswith(f"{named}["), (leaf, path, named)


async def test_other_leaves_are_not_rejected_by_name(http: Http) -> None:
    created = _created()
    for leaf in ({*ROWS.done, *ROWS.harmless} & set(created)) - LACKED:
        for path, request in created[leaf].places:
            named = await _refused(http, request)
            assert named is None or not path.startswith(named), (leaf, path, named)
