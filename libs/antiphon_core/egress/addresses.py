"""Protection against SSRF: the IP addresses that a URL in a request may lead to.

The address is checked, not the host name, and the check is made where the connection is made (guarded_session.py):
otherwise a
second DNS lookup could return another address (DNS rebinding). The tables are written out, because `is_private` differs
between versions of Python (3.11 has 192.0.0.0/29, where IANA has 192.0.0.0/24) and does not know the addresses at which
clouds serve credentials.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_SPECIAL_V4 = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
            *("192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
            *("224.0.0.0/4", "240.0.0.0/4"),
            "168.63.129.16/32",  # Azure's WireServer, which serves the settings and keys of a machine
        ),
    )
)
"""IANA's special-purpose registry of IPv4, including its routed networks; multicast; and one address of a cloud."""
_UNICAST = IPv6Network("2000::/3")
_SPECIAL_V6 = tuple(
    map(
        IPv6Network,
        (
            *("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20"),
            "2002::/16",  # 6to4: an IPv4 address in disguise, and obsolete; so is Teredo, in 2001::/23
        ),
    )
)
"""The networks of IANA's special-purpose registry of IPv6 that are inside of `_UNICAST`."""
_INTERNAL_V4 = tuple(map(IPv4Network, ("10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_INTERNAL_V6 = (IPv6Network("::1/128"), IPv6Network("fc00::/7"))
_NAT64 = IPv6Network("64:ff9b::/96")
_CREDENTIALS = (IPv6Network("fd00:ec2::/32"), IPv6Network("fd20:ce::/32"))
"""The networks in which Amazon and Google serve a machine's credentials over IPv6; over IPv4 they are link-local."""


def is_public(address: str) -> bool:
    """Whether this is an address of the public internet, written in full: "127.1" and the like are no addresses."""
    known = _read(address)
    match known:
        case None:
            return False
        case IPv4Address():
            return not any(known in network for network in _SPECIAL_V4)
    return known in _UNICAST and not any(known in network for network in _SPECIAL_V6)


def is_internal(address: str) -> bool:
    """Whether this is an address of a private network, or of this machine. An address at which a cloud serves
    credentials never counts as internal."""
    known = _read(address)
    match known:
        case None:
            return False
        case IPv4Address():
            return any(known in network for network in _INTERNAL_V4)
    is_inside = any(known in network for network in _INTERNAL_V6)
    return is_inside and not any(known in network for network in _CREDENTIALS)


def _read(address: str) -> IPv4Address | IPv6Address | None:
    """Parses an address; of a NAT64 address the IPv4 address behind it. None: the text is no address, or an IPv4
    address mapped into IPv6, which no server on the internet has."""
    try:
        known = ip_address(address)
    except ValueError:
        return None
    if isinstance(known, IPv4Address):
        return known
    if known.scope_id is not None or known.ipv4_mapped is not None:
        return None
    if known in _NAT64:  # by which clusters with IPv6 only reach IPv4 servers
        return IPv4Address(int(known) & 0xFFFF_FFFF)
    return known
