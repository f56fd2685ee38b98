from __future__ import annotations

import gzip
import re

import pytest

from antiphon_edge.console.assets import assets
from tests.support.edge import running_edge

ENTRY = "app.js"


async def test_page_and_its_files_are_served_without_authentication() -> None:
    async with running_edge(trusted_proxies=("10.0.0.0/8",)) as edge:
        page = await edge.ask("GET", "/console")
        path = re.search(rb'src="(console/[^"]+app\.js)"', page.body)
        assert path is not None
        script = await edge.ask("GET", f"/{path[1].decode()}")
        models = await edge.ask("GET", "/v1/models")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert (script.status, script.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert script.body == assets().files[ENTRY].body
    assert models.status == 401


async def test_files_are_cached_for_ever_and_the_page_is_revalidated() -> None:
    async with running_edge() as edge:
        page = await edge.ask("GET", "/console")
        script = await edge.ask("GET", f"/console/{assets().version}/{ENTRY}")
    assert page.headers["cache-control"] == "no-cache"
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert script.headers["vary"] == "Accept-Encoding"


async def test_files_are_compressed_for_clients_that_can_read_it() -> None:
    path = f"/console/{assets().version}/{ENTRY}"
    async with running_edge() as edge:
        small = await edge.ask("GET", path, headers={"Accept-Encoding": "gzip"}, allow_redirects=False)
        plain = await edge.ask("GET", path, headers={"Accept-Encoding": "identity"})
    assert small.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert plain.body == small.body == gzip.decompress(assets().files[ENTRY].compressed)


@pytest.mark.parametrize("accepted", ["gzip;q=0", "br, gzip; q=0.0, identity", "x-gzipped"])
async def test_files_are_not_compressed_for_clients_that_exclude_gzip(accepted: str) -> None:
    path = f"/console/{assets().version}/{ENTRY}"
    async with running_edge() as edge:
        plain = await edge.ask("GET", path, headers={"Accept-Encoding": accepted})
    assert "content-encoding" not in plain.headers


@pytest.mark.parametrize("accepted", ["br, GZIP", "gzip;q=0.5", "deflate, gzip ; q=1"])
async def test_files_are_compressed_however_gzip_is_accepted(accepted: str) -> None:
    path = f"/console/{assets().version}/{ENTRY}"
    async with running_edge() as edge:
        small = await edge.ask("GET", path, headers={"Accept-Encoding": accepted})
    assert small.headers["content-encoding"] == "gzip"


async def test_files_for_the_page_of_another_release_are_not_cached() -> None:
    async with running_edge() as edge:
        script = await edge.ask("GET", f"/console/0000/{ENTRY}")
    assert (script.status, script.headers["cache-control"]) == (200, "no-store")


async def test_other_paths_are_not_found() -> None:
    async with running_edge() as edge:
        for path in ("0000/main.js", f"{assets().version}/../../settings.py", f"{assets().version}/vendor/README.md"):
            answer = await edge.ask("GET", f"/console/{path}")
            assert (answer.status, answer.error["code"]) == (404, "unknown_url"), path


async def test_a_slash_at_the_end_leads_to_the_page_below_any_prefix() -> None:
    async with running_edge() as edge:
        answer = await edge.ask("GET", "/console/", allow_redirects=False)
    assert (answer.status, answer.headers["location"]) == (308, "../console")


async def test_without_the_setting_there_is_no_console() -> None:
    async with running_edge(console=False) as edge:
        assert (await edge.ask("GET", "/console")).status == 404


async def test_the_address_of_traces_is_in_the_page() -> None:
    async with running_edge(console_trace_url="https://t.example/{trace_id}") as edge:
        assert b'content="https://t.example/{trace_id}"' in (await edge.ask("GET", "/console")).body
