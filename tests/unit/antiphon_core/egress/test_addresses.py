from __future__ import annotations

import pytest

from antiphon_core.egress.addresses import is_internal, is_public

PUBLIC = ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "64:ff9b::101:101"]
INTERNAL = ["127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "::1", "fd12::1", "64:ff9b::7f00:1"]
NEITHER = [
    *("0.0.0.0", "::", "255.255.255.255", "240.0.0.1", "100.64.0.1", "224.0.0.1", "224.0.1.1", "ff02::1"),
    *("169.254.169.254", "169.254.170.2", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "fd20:ce::254"),
    *("::ffff:1.1.1.1", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1"),
    *("2002:101:101::1", "2002:7f00:1::1", "fec0::1", "5f00::1"),
    *("127.1", "2130706433", "0x7f000001", "0177.0.0.1", "1.1.1.1.", "[::1]", "localhost", ""),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_is_public_and_not_internal(address: str) -> None:
    assert is_public(address)
    assert not is_internal(address)


@pytest.mark.parametrize("address", INTERNAL)
def test_internal_address_is_internal_and_not_public(address: str) -> None:
    assert not is_public(address)
    assert is_internal(address)


@pytest.mark.parametrize("address", NEITHER)
def test_special_or_malformed_address_is_neither_public_nor_internal(address: str) -> None:
    assert not is_public(address)
    assert not is_internal(address)
