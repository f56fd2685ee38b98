from __future__ import annotations

from dataclasses import replace
from typing import get_args, get_type_hints

import pytest

from antiphon_translator.engines.fleet_routers import NO_ROUTER, ROUTERS, Route, session_key
from antiphon_translator.generation import GenerationRequest, TokenChunk, TokenPrompt
from antiphon_translator.models.profiles import SESSION_ROUTERS, ModelProfile
from antiphon_translator.placement import PlacementHint, placement_of
from tests.support.pushed import Deliveries

REQUEST = GenerationRequest("resp_1", TokenPrompt((1,)), max_tokens=9, conversation="00ff00ff00ff00ff")
ENDPOINT, SECRET = "http://router:80/v1", b"0123456789abcdef"
KEY = session_key(REQUEST, SECRET)


def route(router: str, *hints: PlacementHint, conversation: str | None = REQUEST.conversation) -> Route:
    request = replace(REQUEST, placement=hints, conversation=conversation)
    return Route.of(ROUTERS[router], request, ENDPOINT, SECRET)


def hint(where: str, tokens: int = 100, endpoint: str = ENDPOINT) -> PlacementHint:
    return PlacementHint(placement_of(endpoint, where), tokens, 0)


@pytest.mark.parametrize(
    ("router", "headers", "members"),
    [
        ("none", {}, {}),
        ("llm_d", {"x-session-token": "bnMvcG9kLTc="}, {}),
        ("dynamo", {"X-Dynamo-Session-ID": KEY}, {}),
        ("smg", {"x-smg-routing-key": KEY}, {}),
        ("trtllm_serve", {"x-session-id": KEY}, {}),
        ("sglang", {}, {"session_id": KEY}),
    ],
)
def test_each_router_is_told_in_its_own_words(router: str, headers: dict[str, str], members: dict[str, str]) -> None:
    made = route(router, hint("bnMvcG9kLTc="))
    assert (dict(made.headers), dict(made.members)) == (headers, members)
    without = route(router, conversation=None)
    assert not without.members
    assert not without.headers


def test_profiles_name_the_routers_of_the_table() -> None:
    assert set(get_args(get_type_hints(ModelProfile)["router"])) == set(ROUTERS)
    assert {name for name, router in ROUTERS.items() if router.takes_sessions} == SESSION_ROUTERS
    assert ModelProfile.__dataclass_fields__["router"].default == NO_ROUTER


def test_session_key_shows_no_id_and_depends_on_the_secret_and_the_conversation() -> None:
    other = replace(REQUEST, conversation="00ff00ff00ff00fe")
    by_key = [replace(each, cache_key="00ff00ff00ff00ff") for each in (REQUEST, other)]
    keys = [session_key(each, SECRET) for each in (REQUEST, replace(REQUEST, request_id="resp_2"), other, *by_key)]
    assert keys[0] == keys[1]
    assert keys[3] == keys[4], "the client says what belongs together"
    assert len({*keys, session_key(REQUEST, b"another secret...")}) == 4
    assert not any("00ff" in key for key in keys)


def test_token_is_that_of_the_longest_beginning_at_this_router() -> None:
    elsewhere = hint("foreign", 900, "http://other:80/v1")
    made = route("llm_d", hint("short", 10), elsewhere, hint("long", 500))
    assert made.headers == {"x-session-token": "long"}
    assert route("llm_d", elsewhere).headers == {}


@pytest.mark.parametrize("where", ["a\r\nx-evil: 1", "a b", "\u00e9", "x" * 201, ""])
def test_token_that_no_header_can_carry_is_neither_kept_nor_sent(where: str) -> None:
    assert route("llm_d", hint(where)).headers == {}
    received = Deliveries()
    route("llm_d").with_placement({"x-session-token": where}, received)([TokenChunk((1,))])
    assert received.received[0][0].placement is None


@pytest.mark.parametrize(
    ("router", "header", "placement"),
    [
        ("llm_d", "x-session-token", "pod-7"),
        ("smg", "x-smg-routed-worker-id", "pod-7"),
        ("dynamo", "x-session-token", None),
        ("none", "x-session-token", None),
    ],
)
def test_answer_of_the_router_is_the_placement_of_the_first_chunk(
    router: str, header: str, placement: str | None
) -> None:
    received = Deliveries()
    deliver = route(router).with_placement({header: "pod-7"}, received)
    for _ in range(2):
        deliver([TokenChunk((1,)), TokenChunk((2,))])
    chunks = [chunk.placement for batch in received.received for chunk in batch]
    assert chunks == [placement, None, None, None]
