"""Which addresses a URL of a stranger may lead to.

An address is judged by what it is, not by the name that led to it, and where it is connected to (fetching.py), so that
no second look-up can put another in its place.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

_UNICAST = IPv6Network("2000::/3")
_IN_IPV6 = (IPv6Network("2002::/16"), IPv6Network("2001::/32"))
"""6to4 and Teredo: an IPv4 address in disguise, and obsolete."""
_NAT64 = IPv6Network("64:ff9b::/96")
_CREDENTIALS = (IPv6Network("fd00:ec2::/32"), IPv6Network("fd20:ce::/32"))
"""Where Amazon and Google serve a machine's credentials over IPv6; over IPv4 they all use link-local addresses."""


def is_public(address: str) -> bool:
    """Whether this is an address of the public internet, written in full: "127.1" and the like are no addresses."""
    known = _read(address)
    match known:
        case None:
            return False
        case IPv4Address():
            return known.is_global and not known.is_multicast
    return known in _UNICAST and known.is_global and not any(known in network for network in _IN_IPV6)


def is_internal(address: str) -> bool:
    """Whether this is a machine of a private network, or this one. Where clouds serve credentials is never that."""
    known = _read(address)
    if known is None or known.is_link_local or known.is_multicast or known.is_unspecified:
        return False
    if known.is_reserved or any(known in network for network in _CREDENTIALS):
        return known.is_loopback  # which IPv6 has among its reserved addresses
    return known.is_private


def _read(address: str) -> IPv4Address | IPv6Address | None:
    """The address that is really connected to; None for what is none, and for IPv4 mapped into IPv6, which no server
    on the internet has."""
    try:
        known = ip_address(address)
    except ValueError:
        return None
    if isinstance(known, IPv4Address):
        return known
    if known.ipv4_mapped is not None:
        return None
    if known in _NAT64:  # how clusters with nothing but IPv6 reach the rest of the internet
        return IPv4Address(int(known) & 0xFFFF_FFFF)
    return known
