"""The document over HTTP."""

from __future__ import annotations

from antiphon_core.jsons import dumps
from antiphon_edge.openapi.document import document
from tests.support.edge import running_edge


async def test_document_and_page_are_served() -> None:
    async with running_edge() as edge:
        told = await edge.ask("GET", "/openapi.json")
        page = await edge.ask("GET", "/docs")
    assert (told.status, told.body) == (200, dumps(document()))
    assert told.headers["content-type"].startswith("application/json")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert page.body.startswith(b"<!doctype html>")
