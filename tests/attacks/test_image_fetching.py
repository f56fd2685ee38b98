"""Attack 13: fetched images. Slow servers of one tenant do not delay another, internal addresses are never reached, and
no URL is logged. Nothing leaves this machine: names and sockets are the test's own."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_address, ip_network
from itertools import islice

import pytest

from antiphon_core.egress import addresses
from antiphon_core.limits import MEDIA_FETCHES_MAX, MEDIA_TENANT_FETCHES_MAX, MEDIA_TURN_FETCHES_MAX
from antiphon_translator.media.downloads import Download, Failure
from antiphon_translator.media.fetching import Fetcher, FetchRules
from tests.support.waiting import WAIT_MAX_S, until
from tests.support.web import HERE, Names, Page, Web, redirect, web_server

MOST = 1_000
# All of https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry.
REGISTRY = """
0.0.0.0/8 0.0.0.0/32 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.0.0/29
192.0.0.8/32 192.0.0.9/32 192.0.0.10/32 192.0.0.170/32 192.0.0.171/32 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24
192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4
255.255.255.255/32 ::1/128 ::/128 ::ffff:0:0/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32 2001:1::1/128
2001:1::2/128 2001:1::3/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28 2001:20::/28 2001:30::/28 2001:db8::/32
2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7 fe80::/10
""".split()
CLOUDS = ["168.63.129.16", "169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"]


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with web_server() as served:
        yield served


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    here_only = FetchRules(permits=lambda address: address == HERE, schemes=("https", "http"), timeout_s=WAIT_MAX_S)
    made = Fetcher(here_only, resolver=Names())
    yield made
    await made.close()


async def test_slow_image_servers_of_one_tenant_do_not_delay_another(web: Web, fetcher: Fetcher) -> None:
    """Six turns of one tenant fetch the largest permitted number of URLs, from servers that never answer."""
    web.pages = {"/tarpit": Page([b"x", 2 * WAIT_MAX_S]), "/image": Page([b"x"])}
    wanted = [{web.url(f"/tarpit?{turn}-{n}"): MOST for n in range(MEDIA_TURN_FETCHES_MAX)} for turn in range(6)]
    stuck = [asyncio.ensure_future(fetcher.fetch(each, tenant="acme")) for each in wanted]
    await until(lambda: len(web.requests) == MEDIA_TENANT_FETCHES_MAX, "the attacker has its share")
    found = await fetcher.fetch({web.url("/image"): MOST}, tenant="globex")
    assert isinstance(found[web.url("/image")], Download)
    assert len(web.requests) == MEDIA_TENANT_FETCHES_MAX + 1 <= MEDIA_FETCHES_MAX
    assert not any(task.done() for task in stuck)
    for task in stuck:
        task.cancel()
    await asyncio.wait(stuck)


async def test_waiting_for_a_fetch_of_the_same_tenant_counts_toward_the_timeout(web: Web) -> None:
    web.pages = {"/tarpit": Page([b"x", 2 * WAIT_MAX_S])}
    hurried = FetchRules(permits=lambda address: address == HERE, schemes=("http",), timeout_s=0.05)
    fetcher = Fetcher(hurried, resolver=Names())
    urls = [{web.url(f"/tarpit?{turn}-{n}"): MOST for n in range(MEDIA_TURN_FETCHES_MAX)} for turn in range(6)]
    found = await asyncio.gather(*(fetcher.fetch(each, tenant="acme") for each in urls))
    assert all(isinstance(each, Failure) for downloads in found for each in downloads.values())
    await fetcher.close()


INSIDE = "127.0.0.2"
LOOKUPS: dict[str, list[list[str]]] = {
    "an internal address": [[INSIDE]],
    "an internal address beside a public one": [[INSIDE, HERE], [HERE, INSIDE]],
    "an internal address in IPv6": [[f"::ffff:{INSIDE}"]],
    "another address at each lookup": [[HERE], [INSIDE], [HERE, INSIDE], [INSIDE]],
}
"""The addresses of a name, at one lookup after the other."""


@pytest.mark.parametrize("kind", LOOKUPS)
async def test_a_name_that_is_rebound_never_leads_to_a_connection_inside(
    web: Web, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address that was checked is the one that is connected to, through the resolver that production uses."""
    answers, inside = iter(LOOKUPS[kind] * 9), list[object]()

    def getaddrinfo(_host: str, port: int, *_rest: object) -> list[object]:
        kinds = [(socket.AF_INET6 if ":" in each else socket.AF_INET, each) for each in next(answers)]
        return [(family, socket.SOCK_STREAM, 6, "", (address, port)) for family, address in kinds]

    async def note(_reader: object, writer: asyncio.StreamWriter) -> None:
        inside.append(writer)
        writer.close()

    web.pages = {"/": redirect(web.url("/image", "again.example")), "/image": Page([b"x"])}
    rules = FetchRules(permits=lambda address: address == HERE, schemes=("http",), timeout_s=WAIT_MAX_S)
    async with await asyncio.start_server(note, INSIDE, web.port):
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        for _ in range(3):  # each with a cache of names of its own
            fetcher = Fetcher(rules)
            found = await fetcher.fetch({web.url(host="rebind.example"): MOST})
            assert kind != "an internal address" or all(isinstance(each, Failure) for each in found.values())
            await fetcher.close()
        monkeypatch.undo()
    assert not inside


LARGE = [b"x" * 2**20] * 9
FAILURES = {
    "too large": (Page(LARGE), 8 * 2**20, WAIT_MAX_S),
    "broken off": (Page(LARGE, breaks_off=True), 16 * 2**20, WAIT_MAX_S),
    "silent": (Page([*LARGE, 2 * WAIT_MAX_S]), 16 * 2**20, 1.0),
}
"""Pages, the largest permitted size, and the timeout, which only a silent server reaches."""


@pytest.mark.parametrize("kind", FAILURES)
async def test_nothing_of_a_failed_fetch_is_left_to_the_garbage_collector(web: Web, kind: str) -> None:
    """60 fetches of 20 MiB each held 1.5 GB until the collector ran. So the collector is off."""
    page, most, timeout_s = FAILURES[kind]
    web.pages = {"/image": page}
    rules = FetchRules(permits=lambda address: address == HERE, schemes=("http",), timeout_s=timeout_s)
    fetcher, url = Fetcher(rules, resolver=Names()), web.url("/image")
    assert isinstance((await fetcher.fetch({url: 1}))[url], Failure)  # what is allocated once does not count
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        assert isinstance((await fetcher.fetch({url: most}))[url], Failure)
        await until(lambda: tracemalloc.get_traced_memory()[0] < 4 * 2**20, "the content is given back")
    finally:
        tracemalloc.stop()
        gc.enable()
        await fetcher.close()


def examples(network: str) -> Iterator[str]:
    """Yields the first addresses of a network, and the last."""
    known = ip_network(network)
    yield from map(str, islice(known, 3))
    yield str(known[-1])


@pytest.mark.parametrize("network", REGISTRY)
def test_no_address_of_the_special_registries_is_public(network: str) -> None:
    for address in examples(network):
        assert not addresses.is_public(address), address


@pytest.mark.parametrize("address", CLOUDS)
def test_cloud_metadata_addresses_are_neither_public_nor_internal(address: str) -> None:
    assert str(ip_address(address)) == address
    assert not addresses.is_public(address)
    assert not addresses.is_internal(address)


@pytest.mark.parametrize("address", ["192.0.0.1", "192.0.0.192", "100.64.0.1", "198.18.0.1"])
def test_special_addresses_are_not_internal(address: str) -> None:
    assert not addresses.is_internal(address)


async def test_signatures_of_image_urls_are_not_logged(
    web: Web, fetcher: Fetcher, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with socket.socket() as silent:
        silent.bind((HERE, 0))
        signature = "X-Amz-Signature=5ec7e7"
        urls = [
            web.url(f"/absent?{signature}"),
            f"http://a.example:{silent.getsockname()[1]}/?{signature}",
            f"http://forbidden.example:1/?{signature}",
            f"https://a.example:{web.port}/?{signature}",
            f"http://[::1/?{signature}",
            f"http://a.example:{web.port}\x00/?{signature}",
        ]
        found = await fetcher.fetch(dict.fromkeys(urls, MOST), tenant="acme")
    assert all(isinstance(each, Failure) for each in found.values())
    assert "5ec7e7" not in caplog.text
    assert "5ec7e7" not in str(found.values())
