from __future__ import annotations

import pytest

from antiphon_core.rpc.addresses import address, is_loopback, stays_here


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert address("127.0.0.1", 7) == "127.0.0.1:7"
    assert address("store", 7) == "store:7"
    assert address("::1", 7) == "[::1]:7"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_loopback_hosts_are_recognized(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "10.0.0.1", "store", "localhost.example.com", "127.0.0.1.example.com", "::2"]
)
def test_other_hosts_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "endpoint",
    [
        "127.0.0.1:50051",
        "localhost:50051",
        "[::1]:50051",
        "dns:///localhost:50051",
        "ipv4:127.0.0.1:50051",
        "ipv6:[::1]:50051",
        "unix:/run/store",
        "unix-abstract:store",
    ],
)
def test_endpoints_of_this_machine_are_recognized(endpoint: str) -> None:
    assert stays_here(endpoint)


@pytest.mark.parametrize(
    "endpoint",
    [
        "store:50051",
        "dns:///store:50051",
        "dns://10.0.0.2/localhost.x:1",
        "ipv4:10.0.0.1:1",
        "[fd00::1]:1",
        "10.0.0.1:1",
    ],
)
def test_endpoints_of_other_machines_are_recognized(endpoint: str) -> None:
    assert not stays_here(endpoint)
