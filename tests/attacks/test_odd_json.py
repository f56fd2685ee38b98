"""JSON that parsers read differently, at every door: deep nesting, long numbers, repeated members, texts that are no
Unicode. Each is an answer or the sender's mistake, never a server error, and an answer is JSON itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from aiohttp import WSMsgType

from antiphon_core.ids import RandomIds, new_conversation_id, new_response_id
from antiphon_core.jsons import dumps, loads
from antiphon_core.limits import JSON_DEPTH_MAX
from antiphon_core.rpc.methods import STORE, TRANSLATOR
from antiphon_core.rpc.server import RpcServer
from antiphon_store.server import handlers as store_handlers
from antiphon_translator.engines.scripted import ScriptedEngine
from antiphon_translator.server import handlers as translator_handlers
from tests.support.edge import running_edge
from tests.support.in_process import translator_of
from tests.support.reasoning_model import reasoning_model

DEPTHS = (JSON_DEPTH_MAX - 4, JSON_DEPTH_MAX + 1, 1_023, 1_025, 100_000)
VALUES: dict[str, bytes] = {
    **{f"{depth} arrays": b"[" * depth + b"]" * depth for depth in DEPTHS},
    **{f"{depth} objects": b'{"a":' * depth + b"1" + b"}" * depth for depth in DEPTHS},
    "an open array": b"[" * 100_000,
    "5,000 digits": b"9" * 5_000,
    "5,000 decimals": b"0." + b"1" * 5_000,
    "above all integers": b"%d" % 2**64,
    "below all integers": b"-%d" % (2**63 + 1),
    "above all floats": b"1e400",
    "an exponent of 5,000 digits": b"1e" + b"9" * 5_000,
    "not a number": b"NaN",
    "infinity": b"-Infinity",
    "half a pair": rb'"\ud800"',
    "no UTF-8": b'"\xff\xfe"',
    "zero bytes": b'"a\0b"',
    "an escaped zero": rb'"a\u0000b"',
    "repeated members": b'{"a":"1","a":"2"}',
    "repeated roles": b'[{"role":"system","role":"user","content":"a","content":"b"}]',
    "repeated ids": b'[{"id":"a","id":"b","role":"user","content":"a"}]',
    "a byte order mark": b"\xef\xbb\xbf1",
    "a comment": b"1/**/",
}
MEMBERS = (
    "input",
    "metadata",
    "temperature",
    "max_output_tokens",
    "tools",
    "instructions",
    "items",
    "messages",
    "model",
)


def bodies(value: bytes) -> Iterator[bytes]:
    """Whole bodies, one with the value in place of itself, and one for each member."""
    yield value
    for name in MEMBERS:
        rest = {"model": "m", "input": "hi", "messages": [{"role": "user", "content": "hi"}], "items": []}
        rest.pop(name, None)
        yield dumps(rest)[:-1] + b',"%b":%b}' % (name.encode(), value)
    yield b'{"model":"m","input":"hi","model":%b}' % value


@pytest.mark.parametrize("name", VALUES)
async def test_odd_json_is_answered_or_rejected_at_every_http_door(name: str, caplog: pytest.LogCaptureFixture) -> None:
    async with running_edge() as edge:
        talk = (await edge.ask("POST", "/v1/conversations", {})).json["id"]
        prompt = (await edge.ask("POST", "/v1/prompts", {"instructions": "x"})).json["id"]
        paths = (
            "/v1/responses",
            "/v1/responses/input_tokens",
            "/v1/responses/compact",
            "/v1/chat/completions",
            "/v1/conversations",
            f"/v1/conversations/{talk}",
            f"/v1/conversations/{talk}/items",
            f"/v1/sessions/{talk}/fork",
            "/v1/prompts",
            f"/v1/prompts/{prompt}",
        )
        for path in paths:
            for body in bodies(VALUES[name]):
                answer = await edge.ask("POST", path, body)
                assert answer.status in (200, 400, 404, 405, 413), (path, body[:80], answer.body)
                loads(answer.body)
    assert not [each for each in caplog.records if each.exc_info]


@pytest.mark.parametrize("name", VALUES)
async def test_odd_json_is_answered_or_rejected_over_a_websocket(name: str, caplog: pytest.LogCaptureFixture) -> None:
    async with running_edge() as edge:
        for body in bodies(VALUES[name]):
            created = body[:-1] + b',"type":"response.create","store":false}' if body.startswith(b"{") else body
            async with edge.http.session.ws_connect(edge.http.url + "/v1/responses") as socket:
                await socket.send_frame(created, WSMsgType.TEXT)
                message = await socket.receive(timeout=30)
                while message.type.name == "TEXT" and loads(message.data)["type"] != "error":
                    if loads(message.data)["type"] == "response.completed":
                        break
                    message = await socket.receive(timeout=30)
                if message.type.name == "TEXT" and loads(message.data)["type"] == "error":
                    assert loads(message.data)["status"] in (400, 404, 413), (body[:80], message.data)
                else:
                    assert message.type.name in ("TEXT", "CLOSE"), message
    assert not [each for each in caplog.records if each.exc_info]


ANSWERS = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,  # a model of that name
    grpc.StatusCode.DATA_LOSS,  # a history, which the edge has from the store
}


def messages(value: bytes) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Calls with this value in each field of JSON."""
    talk, other, response = *(new_conversation_id(RandomIds()) for _ in range(2)), new_response_id(RandomIds())
    record = {"id": response, "status": 3, "body": b"{}", "input_items": b"[]", "output_items": b"[]"}
    yield STORE.methods["CreateConversation"], {"id": talk, "metadata": b'{"a":%b}' % value}
    yield STORE.methods["CreateConversation"], {"id": other, "metadata": value}
    yield STORE.methods["AddConversationItems"], {"conversation_id": talk, "items": b'[{"id":"a","b":%b}]' % value}
    for field in ("body", "input_items", "output_items"):
        yield (
            STORE.methods["PutResponseRecord"],
            {"record": record | {"id": new_response_id(RandomIds()), field: value}},
        )
    turn = {"response_id": response, "created_at": 1, "request": b'{"model":"m"}', "history": b"[]", "input": b"[]"}
    for field in ("request", "history", "input"):
        yield TRANSLATOR.methods["CountTokens"], {"turn": turn | {field: value}}


@pytest.mark.parametrize("name", VALUES)
async def test_odd_json_in_fields_of_rpcs_is_answered_or_the_callers_mistake(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    translator = translator_of((reasoning_model(), ScriptedEngine([])))
    async with running_edge() as edge:
        server = RpcServer()
        server.add(STORE, store_handlers(edge.store), ready=edge.store.ready)
        server.add(TRANSLATOR, translator_handlers(translator), ready=edge.store.ready)
        port = await server.start("127.0.0.1", 0)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            codes = [await code_of(channel, method, given) for method, given in messages(VALUES[name])]
        await server.drain(0)
    await translator.close()
    assert set(codes) <= ANSWERS
    assert not [each for each in caplog.records if each.exc_info]


async def code_of(channel: grpc.aio.Channel, method: Any, given: dict[str, Any]) -> grpc.StatusCode:
    call: Any = channel.unary_unary(method.path)
    try:
        await call(method.request.strict(**given).SerializeToString(), timeout=60)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK
