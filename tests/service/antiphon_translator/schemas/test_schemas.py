from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.jsons import Object, dumps
from antiphon_translator.schemas import schemas, strict_schemas
from antiphon_translator.schemas.schema_outline import InvalidSchema, Outline

STRING: Object = {"type": "string"}


def guidable(schema: Object) -> Outline:
    return schemas.read_guidable(schema)


class RecordingServer:
    """A server that lists the paths of its requests."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.paths: list[str] = []


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    """A server that answers every request with a schema and records the path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.paths.append(self.path)
            body = dumps(STRING)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    asked = RecordingServer(f"http://127.0.0.1:{listening.server_port}")
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield asked
    listening.shutdown()
    thread.join()
    listening.server_close()


def reaching_out(url: str) -> list[Object]:
    """Schemas with which the library by itself would fetch the URL."""
    return [
        {"$ref": url},
        {"properties": {"a": {"$ref": f"{url}#/a"}}},
        {"$id": url, "$ref": "other"},
        {"$schema": url},
        {"$schema": url, "$ref": "#/$defs/a", "$defs": {"a": STRING}},
        {"properties": {"a": {"$schema": url, "$id": f"{url}/id", "type": "string"}}},
        {"$dynamicRef": url},
        {"$recursiveRef": url},
        {"$vocabulary": {url: True}},
    ]


def test_schema_references_are_not_fetched_from_the_network(server: RecordingServer) -> None:
    for schema in reaching_out(f"{server.url}/schema"):
        with suppress(InvalidSchema):
            strict_schemas.require(guidable(schema))
    assert server.paths == []


def test_schema_compiler_fetches_nothing_without_the_earlier_checks(server: RecordingServer) -> None:
    for schema in reaching_out(f"{server.url}/schema"):
        with suppress(InvalidSchema):
            schemas.compile_validator(Outline(schema))
    assert server.paths == []


def test_schema_references_are_not_read_from_the_disk(server: RecordingServer, tmp_path: Path) -> None:
    # A library that reads the file follows its reference to the server, where the request is recorded.
    trap = tmp_path / "schema.json"
    trap.write_bytes(dumps({"$ref": f"{server.url}/from-the-file"}))
    for schema in reaching_out(trap.as_uri()):
        for look in (schemas.read, lambda each: schemas.compile_validator(Outline(each))):
            with suppress(InvalidSchema):
                look(schema)
    assert server.paths == []
