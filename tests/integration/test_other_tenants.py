"""A tenant asks for another tenant's data, at every route that takes an id: the answer is the one for an unknown id.
The nightly run asks ten thousand times."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

import aiohttp
import pytest

from antiphon_core.jsons import Object
from antiphon_edge.server import EdgeServer
from antiphon_translator.engines.scripted import Emit, ScriptedEngine
from tests.support.http import Http
from tests.support.in_process import running
from tests.support.served_models import END_ID, model, tokenizer
from tests.support.volume import volume

OWNER, OTHER = {"x-tenant-id": "owner"}, {"x-tenant-id": "other"}
SECRET = "opal-heron"
ROUNDS, AT_ONCE = volume(1, 4), 16
RESPONSES, CONVERSATIONS = volume((12, 12), (120, 60))

BODIES: tuple[tuple[str, Object], ...] = (
    ("/v1/responses", {"model": "m", "input": "x", "previous_response_id": "{response}"}),
    ("/v1/responses", {"model": "m", "input": "x", "previous_response_id": "{response}", "background": True}),
    ("/v1/responses", {"model": "m", "input": "x", "conversation": "{conversation}"}),
    ("/v1/responses", {"model": "m", "input": [{"type": "item_reference", "id": "{item}"}]}),
    ("/v1/responses/input_tokens", {"model": "m", "input": "x", "previous_response_id": "{response}"}),
    ("/v1/responses/input_tokens", {"model": "m", "input": "x", "conversation": "{conversation}"}),
    ("/v1/responses/input_tokens", {"model": "m", "input": [{"type": "item_reference", "id": "{item}"}]}),
    ("/v1/responses", {"model": "m", "input": "x", "prompt": {"id": "{prompt}"}}),
    ("/v1/responses/input_tokens", {"model": "m", "input": "x", "prompt": {"id": "{prompt}"}}),
    ("/v1/conversations", {"items": [{"type": "item_reference", "id": "{item}"}]}),
)
"""Requests that have ids in their body, with the kind of each id."""

KIND_OF = {
    "/v1/responses": "response",
    "/v1/conversations": "conversation",
    "/v1/sessions": "session",
    "/v1/prompts": "prompt",
}
OF_ALL = "/v1/models/{id}"  # equal for every tenant
UNKNOWN = {
    "response": "resp_" + 48 * "0",
    "conversation": "conv_" + 48 * "0",
    "item": "msg_" + 48 * "0",
    "conversation item": "msg_" + 48 * "0",
    "session": "nobody-has-this",
    "prompt": "pmpt_" + 48 * "0",
}


@dataclass(frozen=True)
class Probe:
    method: str
    path: str
    body: Object | None


@dataclass(frozen=True)
class OwnerData:
    """The owner's data: ids by kind, and the body of each response."""

    ids: dict[str, list[str]]
    responses: dict[str, bytes]


@pytest.fixture
async def server() -> AsyncIterator[EdgeServer]:
    """A server that reads the tenant of a request from a trusted proxy."""
    engine = ScriptedEngine([Emit([*tokenizer().encode(SECRET), END_ID])])
    async with running((model(), engine), trusted_proxies=("127.0.0.1/32",)) as system:
        yield system.server


async def test_data_of_another_tenant_is_answered_as_not_found(server: EdgeServer) -> None:
    async with aiohttp.ClientSession(headers=OWNER) as owner, aiohttp.ClientSession(headers=OTHER) as other:
        held = await create_owner_data(Http(owner, server.url))
        asked = probes(server, held) * ROUNDS
        answers = await answers_to(Http(other, server.url), asked)
        nothing = {shape_of(each): answer for each, answer in zip(asked, answers, strict=True) if is_unknown(each)}
        hits = [
            (each, answer)
            for each, answer in zip(asked, answers, strict=True)
            if answer != nothing[shape_of(each)] or answer[0] not in (400, 404)
        ]
        assert not hits
        for response_id, said in held.responses.items():
            assert (await Http(owner, server.url).get(f"/v1/responses/{response_id}")).body == said


async def test_the_owner_gets_its_data_at_every_probed_route(server: EdgeServer) -> None:
    """Without this test a probe of a route that does not exist would pass."""
    async with aiohttp.ClientSession(headers=OWNER) as owner:
        http = Http(owner, server.url)
        held = await create_owner_data(http)
        found = set()
        for each in probes(server, held):
            if not is_unknown(each) and (await http.ask(each.method, each.path, each.body)).status == 200:
                found.add(shape_of(each))
        asked = {shape_of(each) for each in probes(server, held)}
        assert asked - found <= {("POST", "/v1/responses/ID/cancel", "")}  # the route takes background responses only


async def create_owner_data(http: Http) -> OwnerData:
    """Creates many ids of each kind."""
    held = OwnerData({kind: [] for kind in UNKNOWN}, {})
    for number in range(RESPONSES):
        session_id = f"session-{number}"
        made = await http.ask(
            "POST", "/v1/responses", {"model": "m", "input": SECRET}, headers={"x-antiphon-session": session_id}
        )
        held.ids["session"].append(session_id)
        held.ids["response"].append(made.json["id"])
        held.ids["item"].append(made.json["output"][0]["id"])
        held.responses[made.json["id"]] = (await http.get(f"/v1/responses/{made.json['id']}")).body
    for _ in range(CONVERSATIONS):
        items: list[Object] = [{"role": "user", "content": SECRET}]
        made = await http.post("/v1/conversations", {"items": items})
        held.ids["conversation"].append(made.json["id"])
        items = (await http.get(f"/v1/conversations/{made.json['id']}/items")).json["data"]
        held.ids["conversation item"].append(items[0]["id"])
        made = await http.post("/v1/prompts", {"instructions": SECRET})
        held.ids["prompt"].append(made.json["id"])
    return held


def probes(server: EdgeServer, held: OwnerData) -> list[Probe]:
    """Each route with the ids of its kind, an unknown id first. Deletes come last, those of nested data first."""
    made = itertools.chain(of_paths(server, held), of_bodies(held))
    return sorted(made, key=lambda each: each.path.count("/") if each.method == "DELETE" else 99, reverse=True)


def of_paths(server: EdgeServer, held: OwnerData) -> Iterator[Probe]:
    for method, path in routes_with_ids(server):
        kind = KIND_OF[path.partition("/{")[0]]
        for id_, item_id in zip(ids_of(held, kind), itertools.cycle(ids_of(held, "conversation item")), strict=False):
            place = path.replace("{id}", id_).replace("{item_id}", item_id)
            yield Probe(method, place, BODY_OF.get((method, path)))


def of_bodies(held: OwnerData) -> Iterator[Probe]:
    for path, body in BODIES:
        (kind,) = set(re.findall(r"\{(\w+)\}", str(body))) & UNKNOWN.keys()
        for id_ in ids_of(held, kind):
            yield Probe("POST", path, filled(body, f"{{{kind}}}", id_))


BODY_OF: dict[tuple[str, str], Object] = {
    ("POST", "/v1/conversations/{id}"): {"metadata": {"a": "b"}},
    ("POST", "/v1/prompts/{id}/versions"): {"instructions": "x"},
    ("POST", "/v1/conversations/{id}/items"): {"items": [{"role": "user", "content": "x"}]},
}


def routes_with_ids(server: EdgeServer) -> set[tuple[str, str]]:
    """Every route that takes an id."""
    return {
        (route.method, route.resource.canonical)
        for route in server.app.router.routes()
        if route.resource is not None and "{id}" in route.resource.canonical.replace(OF_ALL, "")
    }


def ids_of(held: OwnerData, kind: str) -> Sequence[str]:
    return [UNKNOWN[kind], *held.ids[kind]]


def filled(body: Object, mark: str, id_: str) -> Object:
    """The body with the id in place of the mark."""

    def fill(value: object) -> object:
        if isinstance(value, dict):
            return {name: fill(each) for name, each in value.items()}
        if isinstance(value, list):
            return [fill(each) for each in value]
        return id_ if value == mark else value

    return {name: fill(value) for name, value in body.items()}


async def answers_to(http: Http, asked: Sequence[Probe]) -> list[tuple[int, str]]:
    """Status and body of each answer, without the ids."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def ask(probe: Probe) -> tuple[int, str]:
        async with gate:
            answer = await http.ask(probe.method, probe.path, probe.body)
            return answer.status, without_ids(answer.body.decode())

    return list(await asyncio.gather(*map(ask, asked)))


def shape_of(probe: Probe) -> tuple[str, str, str]:
    return probe.method, without_ids(probe.path), without_ids(str(probe.body or ""))


def is_unknown(probe: Probe) -> bool:
    """Whether the probe has an unknown id. An unknown item in a known conversation does not count: its conversation is
    the owner's."""
    place = probe.path.partition("/items/")[0]
    return any(id_ in place + str(probe.body) for id_ in UNKNOWN.values())


def without_ids(text: str) -> str:
    return re.sub(r"\b(?:resp|conv|msg|req|pmpt)_[0-9a-z]+|session-\d+|nobody-has-this", "ID", text)
