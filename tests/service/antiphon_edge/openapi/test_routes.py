"""The document over HTTP."""

from __future__ import annotations

import threading

import pytest

from antiphon_core.jsons import dumps
from antiphon_edge.openapi import routes
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


@pytest.mark.parametrize(("path", "name"), [("/openapi.json", "document"), ("/docs", "page")])
async def test_the_document_is_made_outside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, path: str, name: str
) -> None:
    threads: list[threading.Thread] = []

    def made() -> str:
        threads.append(threading.current_thread())
        return "made"

    monkeypatch.setattr(routes, name, made)
    async with running_edge() as edge:
        assert (await edge.ask("GET", path)).status == 200
    assert len(threads) == 1
    assert threading.current_thread() not in threads
