from __future__ import annotations

import socket
import threading

import pytest

from antiphon_core.egress.resolver import Resolver


async def test_resolver_answers_like_the_system_resolver() -> None:
    resolver = Resolver(2)
    try:
        found = await resolver.resolve("127.0.0.1", 80)
    finally:
        await resolver.close()
    assert [(one["host"], one["port"], one["family"]) for one in found] == [("127.0.0.1", 80, socket.AF_INET)]


@pytest.mark.parametrize("host", ["a..b", "...", f"{'a' * 64}.example"])
async def test_a_text_that_can_be_no_name_has_no_addresses(host: str) -> None:
    resolver = Resolver(2)
    with pytest.raises(OSError, match="no name of a host"):
        await resolver.resolve(host)
    await resolver.close()


async def test_dns_lookup_runs_in_its_own_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def look_up(*_: object) -> list[object]:
        threads.append(threading.current_thread().name)
        raise socket.gaierror("nothing")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    resolver = Resolver(2)
    with pytest.raises(OSError, match="nothing"):
        await resolver.resolve("a.example")
    await resolver.close()
    assert threads[0].startswith("egress-names")
