from __future__ import annotations

import pytest

from antiphon_core.config import SettingsError
from antiphon_store.backends.redis.addresses import Address, Topology, parse_address


def test_an_address_of_one_server_is_parsed() -> None:
    assert parse_address("redis", "host") == Address(Topology.SINGLE, (("host", 6379),))
    assert parse_address("redis", "host:7000/3") == Address(Topology.SINGLE, (("host", 7000),), database=3)
    assert parse_address("rediss", "host").has_tls


def test_a_sentinel_address_is_parsed() -> None:
    address = parse_address("redis+sentinel", "a,b:1,c/main/2?tls=true")
    nodes = (("a", 26379), ("b", 1), ("c", 26379))
    assert address == Address(Topology.SENTINEL, nodes, service="main", database=2, has_tls=True)


def test_a_cluster_address_is_parsed() -> None:
    address = parse_address("redis+cluster", "a:1,b:2?tls=true")
    assert address == Address(Topology.CLUSTER, (("a", 1), ("b", 2)), has_tls=True)


def test_ipv6_addresses_in_brackets_are_parsed() -> None:
    assert parse_address("redis+cluster", "[::1]:7000,[fe80::2]").nodes == (("::1", 7000), ("fe80::2", 6379))


def test_credentials_are_decoded_and_not_shown() -> None:
    address = parse_address("redis", "us%40er:pass%2Fword%3A@host")
    assert (address.username, address.password) == ("us@er", "pass/word:")
    assert "pass/word" not in repr(address)
    assert parse_address("redis", ":secret@host").password == "secret"


@pytest.mark.parametrize(
    ("scheme", "rest", "words"),
    [
        ("redis", "", "redis://HOST:PORT"),
        ("redis", "a,b", "redis://HOST:PORT"),
        ("redis", "a:x", "'x' is no port"),
        ("redis", "a:70000", "no port"),
        ("redis", "a:0", "'0' is no port"),
        ("redis", "a:", "'' is no port"),
        ("redis", "[zz]", "write HOST or HOST:PORT"),
        ("redis", "a/x", "no such database"),
        ("redis", "a?timeout=3", "no options here"),
        ("redis", "a?tls=true", "no options here"),
        ("redis+cluster", "a?partition=tree", "known are tls=true"),
        ("redis+sentinel", "a,b", "SERVICE"),
        ("redis+sentinel", "a,,b/main", "HOST:PORT,HOST:PORT"),
        ("redis+cluster", "a/1", "no such database"),
        ("redis+cluster", "a?tls=maybe", "tls=true"),
    ],
)
def test_a_malformed_address_is_rejected_with_advice(scheme: str, rest: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        parse_address(scheme, rest)


def test_the_error_for_a_malformed_address_does_not_show_the_password() -> None:
    with pytest.raises(SettingsError) as caught:
        parse_address("redis", "me:secret@host:x")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("password", ["sec?ret", "12?secret", "?secret", "s/e?c#ret", "secret?tls=true"])
def test_a_password_with_a_question_mark_is_not_taken_for_a_host_or_an_option(password: str) -> None:
    address = parse_address("redis", f"me:{password}@host:7000/3")
    assert (address.password, address.nodes, address.database) == (password, (("host", 7000),), 3)
    with pytest.raises(SettingsError) as caught:
        parse_address("redis+cluster", f"me:{password}@host?tls=maybe")
    assert "sec" not in str(caught.value)
