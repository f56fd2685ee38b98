"""The recipe of docs/howto/resume-a-stream.md, against a server that loses the answer to the first request."""

from __future__ import annotations

import runpy
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from openai import OpenAI

from antiphon_core.jsons import dumps
from tests.support.howto import blocks

RECIPE = Path(__file__).parents[3] / "docs/howto/resume-a-stream.md"
RESPONSE = {"id": "resp_1", "object": "response", "output": []}
EVENTS = b"".join(
    b"data: %s\n\n" % dumps({"type": f"response.{name}", "sequence_number": number, "response": RESPONSE})
    for number, name in enumerate(("created", "completed"))
)


class Lossy(BaseHTTPRequestHandler):
    """Closes the connection of the first request without an answer, and answers the others with a stream."""

    keys: list[str | None]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.keys.append(self.headers["Idempotency-Key"])
        if len(self.keys) > 1:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(EVENTS)


@pytest.fixture
def lossy() -> Iterator[ThreadingHTTPServer]:
    Lossy.keys = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Lossy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("way", ["stream_in_background", "stream_under_key"])
def test_a_request_whose_answer_is_lost_is_repeated_under_its_key(
    lossy: ThreadingHTTPServer, tmp_path: Path, way: str
) -> None:
    (recipe,) = blocks(RECIPE)
    (tmp_path / "recipe.py").write_text(recipe.text)
    stream = runpy.run_path(str(tmp_path / "recipe.py"))[way]
    with OpenAI(base_url=f"http://127.0.0.1:{lossy.server_port}/v1", api_key="none") as client:
        assert [event.type for event in stream(client, model="m", input="Hi")][-1] == "response.completed"
    first, second = Lossy.keys
    assert first is not None
    assert second == first
