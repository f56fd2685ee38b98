"""A program beside Antiphon writes rows with valid checksums and foreign content: every route of an edge tells it as
damage, or answers with what it can read. None ends with a traceback, a stream without an end, or a client's mistake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
import pytest

from antiphon_core import events
from antiphon_core.clock import SystemClock
from antiphon_core.jsons import Object, loads
from antiphon_store.backends.memory import Tree
from antiphon_store.decisions import logs, nodes
from antiphon_store.rows.model import Kind, Ref, Row
from antiphon_translator.engines.scripted import Emit, Hang, ScriptedEngine
from tests.support.http import Http
from tests.support.in_process import System, running
from tests.support.reasoning_model import CALL, END_ID, TOKENIZER, WEATHER, reasoning_model
from tests.support.small_vocabulary import ids_of
from tests.support.stores import ReachableRows
from tests.support.waiting import WAIT_MAX_S

SAID = ("<think>", "Hm.", "</think>", "Hello.", *CALL)
NEW: Object = {"model": "m", "input": "hi", "tools": [WEATHER]}
AGAIN: Object = {"type": "message", "role": "user", "content": "Again."}
KEY = {"idempotency-key": "k"}
DAMAGED, ANSWERED, REJECTED = "damaged", "answered", "rejected"
GARBLED = "garbled"

GARBAGE = (b"{", b"5", b"null", b'"x"', b"\xff", b"[" * 3000)
ITEMS = (
    *GARBAGE,
    b'{"id":5}',
    b'{"id":"m","type":["x"]}',
    b'{"id":"m","type":"message","role":"assistant","content":5}',
    b'{"id":"m","type":"message","role":"assistant","content":[{"type":"output_text","text":5}]}',
    b'{"id":"m","type":"function_call","call_id":5,"name":5,"arguments":5}',
    b'{"id":"m","type":"reasoning","summary":[5],"content":[{"type":"reasoning_text"}]}',
    b'{"id":"m","type":"configuration","reasoning":5,"text":7}',
)
BODIES = (*GARBAGE, b"", b"[]", b'{"background":true', b'{"background":true}', b'{"status":"failed","error":5}')
METADATA = ("", "{", "[]", "null", "5", '{"a":5}')
PROMPTS = (*GARBAGE, b"", b'{"instructions":5}', b'{"input":5}', b'{"input":[5]}', b'{"input":[{"type":"message"}]}')


class Route(NamedTuple):
    method: str
    path: str
    body: Object | None = None
    headers: Mapping[str, str] = {}
    is_socket: bool = False


class Target(NamedTuple):
    """A stored row, and its forged versions by what was changed."""

    tree: Tree
    ref: Ref
    forged: Mapping[str, Row]
    routes: Mapping[str, Route]
    must_tell: frozenset[str]
    """Routes that must tell versions whose name begins with GARBLED; others may answer with what they can read."""

    def may_be(self, version: str, route: str) -> frozenset[str]:
        must_tell = version.startswith(GARBLED) and route in self.must_tell
        return frozenset({DAMAGED} if must_tell else {DAMAGED, ANSWERED, REJECTED})


class Filled:
    """A system with one tenant's rows of each kind, and requests that read them."""

    def __init__(self, system: System, rows: ReachableRows, engine: ScriptedEngine) -> None:
        self.http, self._rows, self._engine = system.http, rows, engine

    async def fill(self) -> None:
        self._engine.script = [*(Emit([each]) for each in ids_of(TOKENIZER, *SAID)), Emit([END_ID])]
        self.keyed = (await self._made(NEW | {"stream": True}, KEY)).events[0]["response"]["id"]
        self.plain = (await self._made(NEW)).json
        self.talk = (await self.http.post("/v1/conversations", {"items": [AGAIN], "metadata": {"a": "b"}})).json["id"]
        self.item = (await self.http.get(f"/v1/conversations/{self.talk}/items")).json["data"][0]["id"]
        self.prompt = (await self.http.post("/v1/prompts", {"instructions": "Say {{what}}."})).json["id"]
        self._engine.script = [*(Emit([each]) for each in ids_of(TOKENIZER, *SAID[:4])), Hang()]
        self.running = (await self._made(NEW | {"background": True})).json["id"]
        async with asyncio.timeout(WAIT_MAX_S):
            while len(list(self._named(Kind.BATCH, self.running))) < 2:
                await asyncio.sleep(0.005)
        self._engine.script = [Emit([END_ID])]

    async def _made(self, body: Object, headers: Mapping[str, str] | None = None) -> Any:
        answer = await self.http.ask("POST", "/v1/responses", body, headers=headers)
        assert answer.status == 200, answer.body
        return answer

    def _named(self, kind: Kind, start: str) -> Iterator[tuple[Tree, Ref, Row]]:
        for tree in self._rows.trees.values():
            yield from ((tree, ref, row) for ref, row in tree.rows.items() if ref.kind is kind and start in ref.id)

    def _reading(self, response_id: str) -> dict[str, Route]:
        one = f"/v1/responses/{response_id}"
        results = [
            {"type": "function_call_output", "call_id": each["call_id"], "output": "x"}
            for each in self.plain["output"]
            if each["type"] == "function_call"
        ]
        after: Object = {"previous_response_id": response_id, "input": [*results, AGAIN]}
        return {
            "get": Route("GET", one),
            "sealed": Route("GET", f"{one}?include=reasoning.encrypted_content"),
            "stream": Route("GET", f"{one}?stream=true"),
            "sealed stream": Route("GET", f"{one}?stream=true&include=reasoning.encrypted_content"),
            "resumed": Route("GET", f"{one}?stream=true&starting_after=3"),
            "input items": Route("GET", f"{one}/input_items?include=reasoning.encrypted_content"),
            "chain": Route("GET", f"{one}/chain"),
            "tree": Route("GET", f"{one}/tree"),
            "continued": Route("POST", "/v1/responses", NEW | after),
            "continued stream": Route("POST", "/v1/responses", NEW | after | {"stream": True}),
            "continued later": Route("POST", "/v1/responses", NEW | after | {"background": True}),
            "counted": Route("POST", "/v1/responses/input_tokens", {"model": "m"} | after),
            "compacted": Route("POST", "/v1/responses/compact", {"model": "m"} | after),
            "referred to": Route("POST", "/v1/responses", NEW | {"input": [{"type": "item_reference", "id": "m"}]}),
            "socket": Route("", "", NEW | after, is_socket=True),
        }

    def targets(self, kind: str) -> Iterator[Target]:
        yield from {
            "items": self._forged_items,
            "bodies": self._forged_bodies,
            "logs": self._forged_logs,
            "added items": self._forged_conversations,
            "metadata": self._forged_metadata,
            "prompts": self._forged_prompts,
        }[kind]()

    def _forged_items(self) -> Iterator[Target]:
        for tree, ref, row in list(self._named(Kind.NODE, self.plain["id"])):
            given = row.items[: row.fields["input_bytes"]]
            versions = {f"{told(each)} as output": node(ref, row, given + b"," + each, row.body) for each in ITEMS}
            versions |= {f"{told(each)} as input": node(ref, row, each, row.body, len(each)) for each in ITEMS}
            telling = {"continued", "continued stream", "continued later", "counted", "compacted", "socket"}
            yield Target(tree, ref, versions, self._reading(ref.id), frozenset(telling))

    def _forged_bodies(self) -> Iterator[Target]:
        for tree, ref, row in list(self._named(Kind.NODE, self.plain["id"])):
            versions = {told(each): node(ref, row, row.items, each) for each in BODIES}
            for status in ("queued", "failed"):
                versions |= {
                    f"{told(each)}, {status}": with_status(node(ref, row, row.items, each), status) for each in BODIES
                }
            routes = self._reading(ref.id)
            chosen = ("get", "sealed", "stream", "sealed stream", "chain")
            yield Target(tree, ref, versions, {name: routes[name] for name in chosen}, frozenset({"get", "chain"}))

    def _forged_logs(self) -> Iterator[Target]:
        routes = self._reading(self.keyed)
        streams = {name: routes[name] for name in ("stream", "sealed stream", "resumed")}
        streams["repeated"] = Route("POST", "/v1/responses", NEW | {"stream": True}, KEY)
        for tree, ref, row in list(self._named(Kind.BATCH, self.keyed)):
            versions = {told(each): batch(ref, row, each) for each in frames(row.items)}
            yield Target(tree, ref, versions, streams, frozenset())
        running = {"followed": Route("GET", f"/v1/responses/{self.running}?stream=true")}
        for tree, ref, row in list(self._named(Kind.BATCH, self.running)):
            versions = {f"{GARBLED} {each!r}": batch(ref, row, each) for each in garbage_frames(row.items)}
            yield Target(tree, ref, versions, running, frozenset(running))

    def _talking(self) -> dict[str, Route]:
        one = f"/v1/conversations/{self.talk}"
        return {
            "conversation": Route("GET", one),
            "items": Route("GET", f"{one}/items"),
            "item": Route("GET", f"{one}/items/{self.item}"),
            "deleted item": Route("DELETE", f"{one}/items/{self.item}"),
            "list": Route("GET", f"/v1/responses?conversation={self.talk}"),
            "counted": Route("POST", "/v1/responses/input_tokens", {"model": "m", "conversation": self.talk}),
            "forked": Route("POST", f"/v1/sessions/{self.talk}/fork", {}),
        }

    def _forged_conversations(self) -> Iterator[Target]:
        for tree in list(self._rows.trees.values()):
            for ref, row in list(tree.rows.items()):
                if ref.kind is Kind.NODE and row.fields.get("added"):
                    versions = {told(each): node(ref, row, each, row.body, len(each)) for each in ITEMS}
                    telling = frozenset({"items", "item", "deleted item", "counted"})
                    yield Target(tree, ref, versions, self._talking(), telling)

    def _forged_metadata(self) -> Iterator[Target]:
        for tree, ref, row in list(self._named(Kind.CONVERSATION, self.talk)):
            versions = {f"{GARBLED} {each}": row._replace(fields={**row.fields, "metadata": each}) for each in METADATA}
            yield Target(tree, ref, versions, self._talking(), frozenset({"conversation", "forked"}))

    def _forged_prompts(self) -> Iterator[Target]:
        used = {"prompt": {"id": self.prompt, "variables": {"what": "x"}}}
        routes = {
            "prompt": Route("GET", f"/v1/prompts/{self.prompt}"),
            "version": Route("GET", f"/v1/prompts/{self.prompt}?version=1"),
            "list": Route("GET", "/v1/prompts"),
            "used": Route("POST", "/v1/responses", NEW | used),
        }
        for tree, ref, row in list(self._named(Kind.PROMPT, self.prompt)):
            if row.items:
                versions = {told(each): row._replace(items=each) for each in PROMPTS}
                yield Target(tree, ref, versions, routes, frozenset({"prompt", "version", "used"}))


def told(content: bytes) -> str:
    """The name of a version with this content."""
    return f"{GARBLED if content in GARBAGE else 'foreign'} {content!r}"


def with_status(row: Row, status: str) -> Row:
    return row._replace(fields={**row.fields, "status": status})


def node(ref: Ref, row: Row, items: bytes, body: bytes, input_bytes: int | None = None) -> Row:
    """The row of a response with other payloads, and the checksums of these."""
    count = row.fields["input_bytes"] if input_bytes is None else input_bytes
    items_crc = nodes.checksum(ref.id, count, items)
    body_crc = nodes.body_checksum(items_crc, body)
    return Row({**row.fields, "input_bytes": count, "items_crc": items_crc, "body_crc": body_crc}, items, body)


def batch(ref: Ref, row: Row, changed: bytes) -> Row:
    """The row of a batch of events with other frames, and their checksum."""
    log_id, _, number = ref.id.rpartition("/")
    return Row({**row.fields, "crc": logs.checksum(log_id, int(number), changed)}, changed, row.body)


def garbage_frames(written: bytes) -> Iterator[bytes]:
    number = events.decode(written)[-1]["sequence_number"]
    yield from (b"", b"garbage", b"data: {\n\n", b"event: x\ndata: 5\n\n", b"event: x\ndata: {}\n\n", b"\xff\x00")
    yield from (written[:-1], written[: len(written) // 2], written + written)
    yield events.encode({"type": events.COMPLETED, "sequence_number": number + 99, "response": {}})


def frames(written: bytes) -> Iterator[bytes]:
    """Frames in target of these: garbage, and events of known and unknown types with foreign content."""
    yield from garbage_frames(written)
    number = {"sequence_number": events.decode(written)[-1]["sequence_number"]}
    yield events.encode({"type": "response.future", **number})
    yield events.encode({"type": events.OUTPUT_TEXT_DELTA, "delta": 5, "output_index": 77, **number})
    for ended in (5, {"output": 5, "status": "completed"}, {"output": [], "status": "?"}):
        yield events.encode({"type": events.COMPLETED, "response": ended, **number})
    yield events.encode({"type": events.FAILED, "response": {"output": [], "status": "failed"}, **number})


async def outcome(http: Http, route: Route, has_told: Callable[[], bool]) -> str:
    """The answer of a route: DAMAGED, ANSWERED, REJECTED, or something that must not be."""
    if route.is_socket:
        return await outcome_of_socket(http, route)
    try:
        answer = await http.ask(route.method, route.path, route.body, headers=route.headers)
    except aiohttp.ClientPayloadError as cut:  # an answer that has begun cannot become an error
        return DAMAGED if has_told() else repr(cut)
    if answer.status == 500:
        return DAMAGED if answer.error["code"] == "data_damaged" else f"{answer.body!r}"
    if answer.status == 200:
        is_stream = "event-stream" in answer.headers["content-type"]
        return ANSWERED if is_stream or answer.json is not None else ""
    return REJECTED if answer.status in (400, 404) else f"{answer.status} {answer.body!r}"


async def outcome_of_socket(http: Http, route: Route) -> str:
    async with http.session.ws_connect(http.url + "/v1/responses") as socket:
        await socket.send_json({"type": "response.create", **(route.body or {})})
        while True:
            event = loads((await socket.receive(timeout=WAIT_MAX_S)).data)
            if event["type"] in events.TERMINAL:
                return ANSWERED
            if event["type"] == "error":
                is_damage = (event["status"], event["error"]["code"]) == (500, "data_damaged")
                return DAMAGED if is_damage else REJECTED if event["status"] == 400 else f"{event}"


@asynccontextmanager
async def filled() -> AsyncIterator[Filled]:
    rows, engine = ReachableRows(SystemClock()), ScriptedEngine([])
    async with running((reasoning_model(), engine), rows=rows, workers=1) as system:
        made = Filled(system, rows, engine)
        await made.fill()
        yield made


@pytest.mark.parametrize("kind", ["items", "bodies", "logs", "added items", "metadata", "prompts"])
async def test_forged_rows_are_told_as_damage_by_every_route_that_reads_them(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(10 * WAIT_MAX_S), filled() as system:
        found = [
            each
            for target in system.targets(kind)
            for each in [each async for each in outcomes(system, target, caplog)]
        ]
    assert DAMAGED in found
    assert not set(found) - {DAMAGED, ANSWERED, REJECTED}


async def outcomes(system: Filled, target: Target, caplog: pytest.LogCaptureFixture) -> AsyncIterator[str]:
    """Asks each route for each forged version of a row."""
    kept = dict(target.tree.rows)
    for version, forged in target.forged.items():
        for name, route in target.routes.items():
            target.tree.rows = kept | {target.ref: forged}
            caplog.clear()
            got = await outcome(system.http, route, lambda: "stored data is damaged" in caplog.text)
            is_right = got in target.may_be(version, name) and not any(each.exc_info for each in caplog.records)
            yield got if is_right else f"{name} of {target.ref.kind} with {version}: {got} {caplog.text[-300:]}"
    target.tree.rows = kept


async def test_a_forged_unfinished_response_that_no_job_runs_is_not_followed_for_ever() -> None:
    async with asyncio.timeout(WAIT_MAX_S), filled() as system:
        (target,) = system.targets("bodies")
        row = target.tree.rows[target.ref]
        target.tree.rows[target.ref] = row._replace(fields={**row.fields, "status": "in_progress"})
        answer = await system.http.get(f"/v1/responses/{target.ref.id}?stream=true")
        assert (answer.status, answer.error["code"]) == (500, "data_damaged")
