from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from antiphon_core import limits
from antiphon_core.egress.guarded_session import CONNECT_TIMEOUT_S
from antiphon_translator.media.downloads import Download, Failure, Problem
from antiphon_translator.media.fetching import Fetcher, FetchRules
from antiphon_translator.settings import TranslatorSettings
from tests.support.certificates import authority, signed_by
from tests.support.images import PNG
from tests.support.waiting import until
from tests.support.web import HERE, Names, Page, Web, redirect, web_server

METADATA = "169.254.169.254"
MOST = 1_000


@pytest_asyncio.fixture
async def web() -> AsyncIterator[Web]:
    async with web_server() as served:
        yield served


def rules(**changes: Any) -> FetchRules:
    """Rules that permit only the address of the test server."""
    return replace(FetchRules(permits=lambda address: address == HERE, schemes=("https", "http")), **changes)


@asynccontextmanager
async def fetcher(given: FetchRules | None = None, names: Names | None = None) -> AsyncIterator[Fetcher]:
    made = Fetcher(given or rules(), resolver=names or Names())
    try:
        yield made
    finally:
        await made.close()


async def fetch(url: str, given: FetchRules | None = None, names: Names | None = None) -> Download | Failure:
    async with fetcher(given, names) as made:
        return (await made.fetch({url: MOST}))[url]


@contextmanager
def unused_port() -> Iterator[int]:
    """A port that rejects connections."""
    with socket.socket() as bound:
        bound.bind((HERE, 0))
        yield bound.getsockname()[1]


# ---- Downloads ----


async def test_url_is_fetched_with_its_media_type(web: Web) -> None:
    web.pages["/a"] = Page([PNG[:9], PNG[9:]], {"Content-Type": "Image/PNG; charset=x"})
    assert await fetch(web.url("/a?b=c")) == Download(PNG, "image/png")
    assert web.requests[0].query_string == "b=c"


async def test_missing_media_type_is_empty(web: Web) -> None:
    web.pages["/a"] = Page([b"x"], {"Content-Type": ""})
    assert await fetch(web.url("/a")) == Download(b"x", "")


async def test_several_urls_are_fetched_with_one_outcome_each(web: Web) -> None:
    web.pages |= {f"/{n}": Page([b"%d" % n]) for n in range(9)}
    wanted = {web.url(f"/{n}"): MOST for n in range(10)}
    async with fetcher() as made:
        found = await made.fetch(wanted)
    assert list(found) == list(wanted)
    contents = [outcome.content for outcome in found.values() if isinstance(outcome, Download)]
    assert contents == [b"%d" % n for n in range(9)]


async def test_absolute_and_relative_redirects_are_followed(web: Web) -> None:
    web.pages |= {
        "/a/b": redirect("../c", 301),
        "/c": redirect(web.url("/d", "b.example"), 307),
        "/d": redirect("/e", 308),
        "/e": Page([b"x"]),
    }
    names = Names()
    found = await fetch(web.url("/a/b"), names=names)
    assert isinstance(found, Download)
    assert set(names.asked) == {"a.example", "b.example"}


async def test_request_has_no_cookies_and_ignores_the_environment_proxy(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sends no cookies of the first answer and uses no proxy of the environment."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    web.pages |= {"/a": Page(headers={"Set-Cookie": "a=b", "Location": "/b"}, status=302), "/b": Page([b"x"])}
    async with fetcher() as made:
        await made.fetch({web.url("/a"): MOST})
        await made.fetch({web.url("/b"): MOST})
    assert [set(request.headers) for request in web.requests] == [
        {"Host", "User-Agent", "Accept", "Accept-Encoding", "Connection"}
    ] * 3


def contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The TLS contexts of a server, and of a client that trusts it as `localhost`."""
    trusted = authority(folder, "trusted")
    shown = signed_by(trusted, folder, "server")
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(shown.cert, shown.key)
    return serving, ssl.create_default_context(cafile=trusted.cert)


async def test_server_with_an_untrusted_or_wrong_certificate_is_a_failure(tmp_path: Path) -> None:
    serving, knowing = contexts(tmp_path)
    async with web_server(serving) as web:
        web.pages["/"] = Page([b"x"])
        for host, tls, fetched in (
            ("localhost", knowing, True),
            ("127.0.0.1", knowing, True),
            ("a.example", knowing, False),
            ("localhost", None, False),
        ):
            url = web.url("/", host, "https")
            made = Fetcher(rules(schemes=("https",)), resolver=Names(), tls=tls)
            found = (await made.fetch({url: MOST}))[url]
            await made.close()
            assert isinstance(found, Download) is fetched, host


async def test_compressed_content_is_not_decompressed(web: Web) -> None:
    bomb = zlib.compress(b"\0" * 10 * MOST)
    web.pages["/a"] = Page([bomb], {"Content-Encoding": "deflate"})
    assert await fetch(web.url("/a")) == Download(bomb, "application/octet-stream")


# ---- Rejected URLs ----

URLS: list[tuple[str, str]] = [
    ("ftp://a.example/", "its URL must begin with https or http"),
    ("http://user@a.example/", "its URL must not have a user name"),
]


@pytest.mark.parametrize(("url", "words"), URLS)
async def test_invalid_url_is_rejected_with_a_reason(url: str, words: str) -> None:
    names = Names({url: ["127.0.0.2"]})
    found = await fetch(url, rules(permits=lambda _: False), names)
    assert isinstance(found, Failure)
    assert re.search(words, found.why), found.why


PRIVATE = [
    *("127.0.0.2", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]"),
    *("10.0.0.1", "169.254.169.254", "[64:ff9b::7f00:1]", "[fd00:ec2::254]", "0", "localhost", "[::]"),
]


@pytest.mark.parametrize("host", PRIVATE)
async def test_private_address_in_any_spelling_is_rejected(web: Web, host: str) -> None:
    """Uses the rules of the default settings with http, and the system resolver."""
    given = FetchRules.of(TranslatorSettings(media_http=True))
    made = Fetcher(given)
    url = web.url("/", host)
    try:
        found = (await made.fetch({url: MOST}))[url]
    finally:
        await made.close()
    assert found == Failure(Problem.DOWNLOAD, "its server cannot be reached from here")
    assert web.requests == []


async def test_host_name_of_a_private_address_is_rejected(web: Web) -> None:
    names = Names({"rebind.example": ["127.0.0.2"]})
    assert isinstance(await fetch(web.url(host="rebind.example"), names=names), Failure)
    assert web.requests == []


async def test_host_name_is_resolved_once_for_each_connection(web: Web) -> None:
    """The connection uses the checked address. A second lookup could return another one (DNS rebinding)."""
    web.pages["/"] = Page([b"x"])
    names = Names({"rebind.example": [HERE, "127.0.0.2", "127.0.0.2"]})
    assert isinstance(await fetch(web.url(host="rebind.example"), names=names), Download)
    assert names.asked == ["rebind.example"]


@pytest.mark.parametrize("target", ["http://127.0.0.2/", f"http://{METADATA}/latest/", "http://inside.example/"])
async def test_redirect_to_a_private_address_is_not_followed(web: Web, target: str) -> None:
    web.pages["/a"] = redirect(target)
    found = await fetch(web.url("/a"), names=Names({"inside.example": ["10.0.0.1"]}))
    assert found == Failure(Problem.DOWNLOAD, "its server cannot be reached from here")
    assert len(web.requests) == 1


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://a.example/", "http://u:p@a.example/", "data:,x"])
async def test_redirect_to_an_invalid_url_is_rejected(web: Web, target: str) -> None:
    web.pages["/a"] = redirect(target)
    found = await fetch(web.url("/a"))
    assert isinstance(found, Failure)
    assert found.problem is Problem.URL


async def test_redirect_from_https_to_http_is_not_followed_when_only_https_is_permitted(
    web: Web, tmp_path: Path
) -> None:
    serving, knowing = contexts(tmp_path)
    async with web_server(serving) as secure:
        secure.pages["/"] = redirect(web.url("/x", "localhost"))
        url = secure.url("/", "localhost", "https")
        made = Fetcher(rules(schemes=("https",)), resolver=Names(), tls=knowing)
        found = (await made.fetch({url: MOST}))[url]
        await made.close()
    assert found == Failure(Problem.URL, "its URL must begin with https")
    assert (len(secure.requests), web.requests) == (1, [])


async def test_http_url_is_rejected_when_only_https_is_permitted(web: Web) -> None:
    found = await fetch(web.url("/a"), rules(schemes=("https",)))
    assert found == Failure(Problem.URL, "its URL must begin with https")
    assert web.requests == []


async def test_more_than_three_redirects_are_a_failure(web: Web) -> None:
    web.pages |= {f"/{n}": redirect(f"/{n + 1}") for n in range(9)} | {"/9": Page([b"x"])}
    assert isinstance(await fetch(web.url("/6")), Download)
    found = await fetch(web.url("/5"))
    assert found == Failure(Problem.DOWNLOAD, "its server redirects more than 3 times")


async def test_only_configured_hosts_are_fetched(web: Web) -> None:
    web.pages["/"] = Page([b"x"])
    assert isinstance(await fetch(web.url(host="b.a.example"), rules(hosts=("*.a.example",))), Download)
    found = await fetch(web.url(host="a.example"), rules(hosts=("*.a.example",)))
    assert found == Failure(Problem.URL, "its URL names a host that this server does not connect to")


async def test_redirect_to_a_host_that_is_not_configured_is_rejected(web: Web) -> None:
    web.pages["/"] = redirect(web.url("/x", "b.example"))
    found = await fetch(web.url(), rules(hosts=("a.example",)))
    assert found == Failure(Problem.URL, "its URL names a host that this server does not connect to")


async def test_url_is_rejected_when_fetching_is_disabled(web: Web) -> None:
    assert await fetch(web.url(), rules(can_fetch=False)) == Failure(Problem.URL, "this server takes data: URLs only")


# ---- Failures ----


@pytest.mark.parametrize("status", [204, 206, 304, 404, 500])
async def test_any_status_but_200_is_a_failure(web: Web, status: int) -> None:
    web.pages["/a"] = Page(status=status)
    found = await fetch(web.url("/a"))
    assert found == Failure(Problem.DOWNLOAD, f"its server answered with the status {status}")


async def test_content_length_over_the_limit_is_rejected(web: Web) -> None:
    web.pages["/a"] = Page([b"x"], {"Content-Length": str(MOST + 1)}, breaks_off=True)
    found = await fetch(web.url("/a"))
    assert isinstance(found, Failure)
    assert (found.problem, "more than" in found.why) == (Problem.SIZE, True)


async def test_endless_content_is_cut_off_at_the_limit(web: Web) -> None:
    """The stream has no Content-Length and never ends."""
    endless: list[bytes | float] = [b"x" * 100, 0.001]
    web.pages["/a"] = Page([*endless * 1000, 600.0])
    async with asyncio.timeout(30):
        found = await fetch(web.url("/a"))
    assert isinstance(found, Failure)
    assert found.problem is Problem.SIZE


async def test_content_of_exactly_the_limit_is_accepted(web: Web) -> None:
    web.pages["/a"] = Page([b"x" * MOST])
    assert isinstance(await fetch(web.url("/a")), Download)


async def test_downloads_of_a_turn_over_their_common_limit_are_rejected(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MEDIA_BYTES_MAX", 1500)
    web.pages |= {"/a": Page([b"x" * MOST]), "/b": Page([b"x" * MOST])}
    async with fetcher() as made:
        found = await made.fetch({web.url("/a"): MOST, web.url("/b"): MOST})
        assert sorted(type(outcome).__name__ for outcome in found.values()) == ["Download", "Failure"]
        assert isinstance((await made.fetch({web.url("/a"): MOST}))[web.url("/a")], Download)


async def test_slow_server_times_out_without_delaying_other_downloads(web: Web) -> None:
    """Tries longer timeouts, because on a busy machine the fast server takes longer too."""
    web.pages |= {"/slow": Page([b"x", 600.0]), "/fast": Page([b"x"])}
    found: Mapping[str, Download | Failure] = {}
    for timeout_s in (0.15, 1.0, 20.0):
        async with fetcher(rules(timeout_s=timeout_s)) as made:
            found = await made.fetch({web.url("/slow"): MOST, web.url("/fast"): MOST})
        if isinstance(found[web.url("/fast")], Download):
            break
    assert found == {
        web.url("/slow"): Failure(Problem.DOWNLOAD, "it took too long"),
        web.url("/fast"): Download(b"x", "application/octet-stream"),
    }


async def test_truncated_answer_is_a_failure(web: Web) -> None:
    web.pages["/a"] = Page([b"x"], {"Content-Length": "9"}, breaks_off=True)
    found = await fetch(web.url("/a"))
    assert found == Failure(Problem.DOWNLOAD, "its server cannot be reached from here")


async def test_absent_and_forbidden_servers_have_equal_errors(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with unused_port() as port:
        absent = await fetch(f"http://a.example:{port}/")
    forbidden = await fetch("http://b.example/", names=Names({"b.example": ["10.0.0.1"]}))
    assert absent == forbidden == Failure(Problem.DOWNLOAD, "its server cannot be reached from here")
    assert "nothing may be sent to the address 10.0.0.1" in caplog.text


async def test_unresolvable_host_name_is_reported_as_unreachable() -> None:
    class Nowhere(Names):
        async def resolve(self, host: str, port: int = 0, family: Any = socket.AF_INET) -> Any:
            raise OSError("no such name")

    found = await fetch("http://a.example/", names=Nowhere())
    assert found == Failure(Problem.DOWNLOAD, "its server cannot be reached from here")


async def test_cancellation_of_the_caller_cancels_its_fetches(web: Web) -> None:
    web.pages["/a"] = Page([b"x", 600.0])
    async with fetcher() as made:
        running = asyncio.create_task(made.fetch({web.url("/a"): MOST}))
        await until(lambda: bool(web.requests), "the server is asked")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [task for task in asyncio.all_tasks() if "fetch_one" in repr(task)] == []


# ---- Settings ----


@pytest.mark.parametrize(
    ("address", "settings", "permitted"),
    [
        ("1.1.1.1", {}, True),
        ("10.0.0.1", {}, False),
        ("127.0.0.1", {}, False),
        ("10.0.0.1", {"media_private_addresses": True}, True),
        ("127.0.0.1", {"media_private_addresses": True}, True),
        (METADATA, {"media_private_addresses": True}, False),
        ("100.64.0.1", {"media_private_addresses": True}, False),
    ],
)
def test_settings_permit_public_or_also_private_addresses(
    address: str, settings: dict[str, bool], permitted: bool
) -> None:
    assert FetchRules.of(TranslatorSettings(**settings)).permits(address) is permitted  # type: ignore[arg-type]


def test_fetch_rules_take_hosts_schemes_and_timeout_from_the_settings() -> None:
    careful = FetchRules.of(TranslatorSettings())
    assert (careful.can_fetch, careful.hosts, careful.schemes) == (True, (), ("https",))
    open_minded = FetchRules.of(TranslatorSettings(media_http=True, media_hosts=("A.Example",), media_timeout_s=3))
    assert (open_minded.hosts, open_minded.schemes, open_minded.timeout_s) == (("a.example",), ("https", "http"), 3)


def test_connect_timeout_is_shorter_than_the_media_timeout() -> None:
    assert TranslatorSettings().media_timeout_s > CONNECT_TIMEOUT_S
