from __future__ import annotations

import socket

import pytest

from antiphon_core.egress.guarded_session import CheckedSockets, guarded_session
from antiphon_core.egress.resolver import Resolver


def test_no_socket_is_made_to_an_address_that_is_not_permitted() -> None:
    make = CheckedSockets(lambda address: address == "192.0.2.1")
    with pytest.raises(OSError, match="127.0.0.1"):
        make((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80)))
    with make((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("192.0.2.1", 80))) as made:
        assert made.family is socket.AF_INET


async def test_proxies_of_the_environment_and_cookies_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    resolver = Resolver(1)
    session = guarded_session(
        lambda _: True, resolver, headers={"User-Agent": "antiphon"}, chunk_bytes=4, connections_max=1
    )
    assert not session.trust_env
    assert not session.auto_decompress
    assert not list(session.cookie_jar)
    await session.close()
    await resolver.close()
