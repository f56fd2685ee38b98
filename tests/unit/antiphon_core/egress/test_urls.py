from __future__ import annotations

import re

import pytest
from yarl import URL

from antiphon_core.egress.urls import EgressRules, UrlRejected, check_url, is_covered, is_same_resource, permits_of

RULES = EgressRules(permits=lambda _: False, schemes=("https", "http"))
URLS: list[tuple[str, str]] = [
    ("ftp://a.example/", "must begin with https or http"),
    ("file:///etc/passwd", "must begin with https"),
    ("//a.example/", "must begin with https"),
    ("a.example/x.png", "must begin with https"),
    ("", "must begin with https"),
    ("https://", "names no host"),
    ("https:///x", "names no host"),
    ("http://[::1", "is not one"),
    ("http://a.example:99999/", "is not one"),
    ("http://user@a.example/", "user name"),
    ("http://user:pass@a.example/", "user name"),
    ("http://:pass@a.example/", "user name"),
    ("http://a.example\\@b.example/", "is not one"),
    ("http://" + "a" * 9000, "more than 8192 characters"),
]


@pytest.mark.parametrize(("url", "words"), URLS)
def test_invalid_url_is_rejected_with_a_reason(url: str, words: str) -> None:
    with pytest.raises(UrlRejected) as caught:
        check_url(url, RULES)
    assert re.search(words, str(caught.value)), str(caught.value)


@pytest.mark.parametrize(
    ("hosts", "host", "covered"),
    [
        (("a.example",), "a.example", True),
        (("a.example",), "A.Example", True),
        (("a.example",), "a.example.", True),
        (("a.example",), "b.a.example", False),
        (("a.example",), "xa.example", False),
        (("*.a.example",), "b.a.example", True),
        (("*.a.example",), "c.b.a.example", True),
        (("*.a.example",), "a.example", False),
        (("*.a.example",), "ba.example", False),
        (("b.example", "a.example"), "a.example", True),
    ],
)
def test_hosts_are_compared_whole_or_by_their_subdomain(hosts: tuple[str, ...], host: str, covered: bool) -> None:
    assert is_covered(host, hosts) is covered


@pytest.mark.parametrize(
    ("url", "is_same"),
    [
        ("https://A.example.:443/mcp/?x#y", True),
        ("https://a.example/b/../%6Dcp", True),
        ("https://a.example:8443/mcp", False),
        ("http://a.example/mcp", False),
        ("https://b.a.example/mcp", False),
        ("https://a.example/mcp/b", False),
        ("https://a.example/MCP", False),
    ],
)
def test_a_resource_is_the_same_however_its_url_is_spelled(url: str, is_same: bool) -> None:
    assert is_same_resource(URL("https://a.example/mcp"), URL(url)) is is_same


def test_http_needs_a_rule_of_its_own() -> None:
    with pytest.raises(UrlRejected, match="must begin with https"):
        check_url("http://a.example/", EgressRules(permits=lambda _: True))


@pytest.mark.parametrize(
    ("address", "with_private", "without"),
    [
        ("93.184.216.34", True, True),
        ("127.0.0.1", True, False),
        ("10.1.2.3", True, False),
        ("169.254.169.254", False, False),
    ],
)
def test_private_addresses_need_a_setting_and_link_local_ones_are_never_reached(
    address: str, with_private: bool, without: bool
) -> None:
    assert permits_of(private_addresses=True)(address) is with_private
    assert permits_of(private_addresses=False)(address) is without
