from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon_edge.http.pages import is_foreign_name
from tests.support.api_keys import KeyFiles
from tests.support.edge import RunningEdge, running_edge
from tests.support.http import Answer

FOREIGN = "https://evil.example.com"
BODY = b'{"model": "m", "input": "hi"}'


@pytest.fixture
async def edge() -> AsyncIterator[RunningEdge]:
    async with running_edge() as running:
        yield running


async def post(edge: RunningEdge, **headers: str) -> Answer:
    """Sends a simple request, which needs no preflight: a form's content type and no custom header."""
    return await edge.ask("POST", "/v1/responses", BODY, headers={"Content-Type": "text/plain", **headers})


@pytest.mark.parametrize("origin", [FOREIGN, "null", "http://[", "http://127.0.0.1:1", "file://"])
async def test_request_from_a_page_of_another_host_is_rejected(edge: RunningEdge, origin: str) -> None:
    answer = await post(edge, Origin=origin)
    assert (answer.status, answer.error["code"]) == (403, "origin_refused")
    assert answer.headers["x-request-id"]
    gone = await edge.ask("DELETE", "/v1/responses/resp_x", headers={"Origin": origin})
    assert (gone.status, gone.error["code"]) == (403, "origin_refused")


async def test_own_pages_other_clients_and_foreign_reads_are_accepted(edge: RunningEdge) -> None:
    assert (await post(edge)).status == 200
    assert (await post(edge, Origin=edge.http.url)).status == 200
    assert (await edge.ask("GET", "/v1/models", headers={"Origin": FOREIGN})).status == 200


@pytest.mark.parametrize("origins", [(FOREIGN,), ("*",)])
async def test_page_of_an_allowed_origin_is_accepted(origins: tuple[str, ...]) -> None:
    async with running_edge(cors_origins=origins) as edge:
        assert (await post(edge, Origin=FOREIGN)).status == 200


@pytest.mark.parametrize("name", ["evil.example.com", "intranet", "my-laptop."])
async def test_dns_rebinding_with_a_foreign_host_name_is_rejected(edge: RunningEdge, name: str) -> None:
    for method, path in (("GET", "/v1/models"), ("POST", "/v1/responses"), ("GET", "/docs")):
        headers = {"Host": f"{name}:8000", "Origin": f"http://{name}:8000"}
        answer = await edge.ask(method, path, BODY if method == "POST" else b"", headers=headers)
        assert (answer.status, answer.error["code"]) == (403, "host_refused")
        assert "keys_file" in answer.error["message"]


@pytest.mark.parametrize(
    "host", ["localhost:8000", "my-laptop.local", "host.docker.internal:8000", "printer.local", "[::1]:1"]
)
async def test_local_host_names_are_accepted(edge: RunningEdge, host: str) -> None:
    assert (await post(edge, Host=host)).status == 200


async def test_insecure_edge_answers_under_any_host_name() -> None:
    async with running_edge(insecure=True) as edge:
        assert (await post(edge, Host="antiphon.example.com")).status == 200
        assert (await post(edge, Host="antiphon.example.com", Origin=FOREIGN)).error["code"] == "origin_refused"


async def test_request_with_a_key_may_have_any_host_and_origin(tmp_path: Path) -> None:
    files = KeyFiles(tmp_path)
    key = files.make("acme")
    async with running_edge(**files.settings) as edge:
        headers = {"Host": "antiphon.example.com", "Origin": FOREIGN}
        assert (await post(edge, **headers)).status == 401
        assert (await post(edge, Authorization=f"Bearer {key}", **headers)).status == 200


@pytest.mark.parametrize(
    ("host", "foreign"),
    [
        ("", False),
        ("localhost", False),
        ("LOCALHOST:80", False),
        ("127.0.0.1", False),
        ("10.0.0.7:8000", False),
        ("[::1]:8000", False),
        ("[::ffff:127.0.0.1]", False),
        ("a.localhost.", False),
        ("a.local:1", False),
        ("evil.example.com", True),
        ("evil.example.com.:80", True),
        ("127.0.0.1.evil.example", True),
        ("localhost.evil.example", True),
        ("evil.local.example:80", True),
        ("1.2.3", True),
        ("intranet", True),
        ("intranet.:80", True),
        ("localhost1", True),
        ("local", True),
        ("2130706433", True),
        ("0x7f.1", True),
    ],
)
def test_host_names_are_classified_as_foreign_or_local(host: str, foreign: bool) -> None:
    assert is_foreign_name(host) is foreign
