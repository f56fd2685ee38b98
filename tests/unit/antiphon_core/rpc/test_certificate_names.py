from __future__ import annotations

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.rpc.certificate_names import CertificateName, NameType, of_peer, parse

ALTERNATIVE = "x509_subject_alternative_name"
COMMON = {"x509_common_name": [b"a.svc"]}


def matches(written: str, peer: dict[str, list[bytes]]) -> bool:
    return parse(written, "") in set(of_peer(peer))


@pytest.mark.parametrize(
    ("property_", "value", "written"),
    [
        ("peer_dns", b"A.svc", ["a.svc", "dns:a.svc", "dns:A.SVC"]),
        ("peer_uri", b"spiffe://acme/edge", ["uri:spiffe://acme/edge"]),
        ("peer_email", b"edge@acme.example", ["email:edge@acme.example"]),
        ("peer_ip", b"::1", ["ip:::1", "ip:0:0::1"]),
    ],
)
def test_a_name_matches_alternative_names_of_its_own_type_only(
    property_: str, value: bytes, written: list[str]
) -> None:
    peer = {ALTERNATIVE: [value], property_: [b"other", value]}
    assert all(matches(each, peer) for each in written)
    for other in {"peer_dns", "peer_uri", "peer_email", "peer_ip"} - {property_}:
        assert not any(matches(each, {ALTERNATIVE: [value], other: [value]}) for each in written)


def test_the_common_name_counts_only_without_alternative_names() -> None:
    assert matches("a.svc", COMMON)
    assert not matches("dns:a.svc", COMMON)
    for kind, value in (("peer_dns", b"b.svc"), ("peer_uri", b"spiffe://b"), ("", b"other types of SAN")):
        assert not matches("a.svc", {**COMMON, ALTERNATIVE: [value], kind: [value]})


@pytest.mark.parametrize("value", [b"*.svc", b"b.svc.evil", b"", b"\xff"])
def test_other_dns_names_do_not_match(value: bytes) -> None:
    assert not matches("b.svc", {ALTERNATIVE: [value], "peer_dns": [value]})


@pytest.mark.parametrize("written", ["", "spiffe://acme/edge", "edge@acme.example", "cn:edge", "::1"])
def test_a_name_that_is_no_dns_name_needs_its_type(written: str) -> None:
    with pytest.raises(SettingsError, match="line 1: .* needs its type, one of: dns, uri, email, ip"):
        parse(written, "line 1")


def test_addresses_are_compared_in_their_short_form() -> None:
    assert parse("ip:0:0::1", "") == CertificateName(NameType.IP, "::1")
    with pytest.raises(SettingsError, match="is no IP address"):
        parse("ip:edge", "line 1")
