from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.rpc.certificate_names import Certificate, CertificateName, NameType, of_certificate, parse

COMMON = {"subject": ((("countryName", "XX"),), (("commonName", "A.svc"),))}


def names(*alternatives: tuple[str, str]) -> dict[str, Any]:
    return {"subjectAltName": alternatives}


def matches(written: str, certificate: Certificate) -> bool:
    return parse(written, "") in set(of_certificate(certificate))


@pytest.mark.parametrize(
    ("type_", "value", "written"),
    [
        ("DNS", "A.svc", ["a.svc", "dns:a.svc", "dns:A.SVC"]),
        ("URI", "spiffe://acme/edge", ["uri:spiffe://acme/edge"]),
        ("email", "edge@acme.example", ["email:edge@acme.example"]),
        ("IP Address", "0:0:0:0:0:0:0:1", ["ip:::1", "ip:0:0::1"]),
        ("IP Address", "10.0.3.9", ["ip:10.0.3.9"]),
    ],
)
def test_a_name_matches_alternative_names_of_its_own_type_only(type_: str, value: str, written: list[str]) -> None:
    assert all(matches(each, names((type_, value), ("DNS", "other"))) for each in written)
    for other in {"DNS", "URI", "email", "DirName"} - {type_}:
        assert not any(matches(each, names((other, value))) for each in written)


def test_the_common_name_counts_only_without_alternative_names() -> None:
    assert matches("a.svc", COMMON)
    assert not matches("dns:a.svc", COMMON)
    for alternative in (("DNS", "b.svc"), ("URI", "spiffe://b"), ("DirName", "other types of SAN")):
        assert not matches("a.svc", {**COMMON, **names(alternative)})


@pytest.mark.parametrize("value", ["*.svc", "b.svc.evil", ""])
def test_other_dns_names_do_not_match(value: str) -> None:
    assert not matches("b.svc", names(("DNS", value)))


@pytest.mark.parametrize("written", ["", "spiffe://acme/edge", "edge@acme.example", "cn:edge", "::1"])
def test_a_name_that_is_no_dns_name_needs_its_type(written: str) -> None:
    with pytest.raises(SettingsError, match="line 1: .* needs its type, one of: dns, uri, email, ip"):
        parse(written, "line 1")


def test_addresses_are_compared_in_their_short_form() -> None:
    assert parse("ip:0:0::1", "") == CertificateName(NameType.IP, "::1")
    with pytest.raises(SettingsError, match="is no IP address"):
        parse("ip:edge", "line 1")
