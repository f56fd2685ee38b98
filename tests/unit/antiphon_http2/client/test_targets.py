from __future__ import annotations

import pytest

from antiphon_http2.client.targets import Target, read_target, read_targets


@pytest.mark.parametrize(
    ("endpoint", "target"),
    [
        ("triton:8001", Target("triton", 8001, "triton:8001")),
        ("dns:///triton.models.svc:8001", Target("triton.models.svc", 8001, "triton.models.svc:8001")),
        ("dns:triton:8001", Target("triton", 8001, "triton:8001")),
        ("127.0.0.1:1", Target("127.0.0.1", 1, "127.0.0.1:1")),
        ("[::1]:8001", Target("::1", 8001, "[::1]:8001")),
        ("dns:///[fe80::1%eth0]:8001", Target("fe80::1%eth0", 8001, "[fe80::1%eth0]:8001")),
    ],
)
def test_endpoints_are_read(endpoint: str, target: Target) -> None:
    assert read_target(endpoint) == target


@pytest.mark.parametrize(
    "endpoint",
    ["", "triton", ":8001", "triton:", "triton:0", "triton:65536", "http://triton:80", "::1:80", "unix:/x:1"],
)
def test_invalid_endpoint_is_rejected(endpoint: str) -> None:
    with pytest.raises(ValueError, match="not an endpoint"):
        read_target(endpoint)


@pytest.mark.parametrize("name", ["triton..svc", ".triton", "x" * 64, "triton." + "x" * 64])
def test_a_name_that_no_resolver_takes_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="not an endpoint"):
        read_target(f"{name}:8001")


@pytest.mark.parametrize("name", ["triton.svc.", "triton_0", "münchen.example", "x" * 63])
def test_names_that_resolvers_take_are_accepted(name: str) -> None:
    assert read_target(f"{name}:8001").host == name


@pytest.mark.parametrize(
    ("endpoint", "authorities"),
    [
        ("dns:///store:50051", ["store:50051"]),
        ("ipv4:10.0.0.1:1,10.0.0.2:2", ["10.0.0.1:1", "10.0.0.2:2"]),
        ("ipv6:[::1]:1,[::2]:1", ["[::1]:1", "[::2]:1"]),
    ],
)
def test_a_list_of_addresses_names_several_servers(endpoint: str, authorities: list[str]) -> None:
    assert [target.authority for target in read_targets(endpoint)] == authorities


@pytest.mark.parametrize("endpoint", ["ipv4:", "ipv4:10.0.0.1:1,", "unix:/x:1"])
def test_a_malformed_list_of_addresses_is_rejected(endpoint: str) -> None:
    with pytest.raises(ValueError, match="not an endpoint"):
        read_targets(endpoint)
