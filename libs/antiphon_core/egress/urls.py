"""The rules for URLs of servers that requests name. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from yarl import URL

from antiphon_core.egress import addresses

URL_CHARS_MAX = 8_192  # signed URLs stay far below

Permits = Callable[[str], bool]
"""Whether an IP address may be connected to."""


class UrlRejected(Exception):
    """The URL breaks a rule. The message continues a sentence that begins with "the URL", and can be shown to the
    client."""


@dataclass(frozen=True, slots=True)
class EgressRules:
    """The servers that may be connected to: by IP address, by host name, and by scheme. No `hosts` means any host."""

    permits: Permits
    hosts: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ("https",)


def permits_of(*, private_addresses: bool) -> Permits:
    """The rule for addresses: those of the public internet, and with `private_addresses` internal ones."""

    def permits(address: str) -> bool:
        return addresses.is_public(address) or (private_addresses and addresses.is_internal(address))

    return permits


def schemes_of(*, http: bool) -> tuple[str, ...]:
    return ("https", "http") if http else ("https",)


def check_url(url: str, rules: EgressRules) -> URL:
    """Parses a URL with the parser of the client that connects to it. UrlRejected: it breaks a rule."""
    if len(url) > URL_CHARS_MAX:
        raise UrlRejected(f"has more than {URL_CHARS_MAX} characters")
    try:
        parsed = URL(url)
        host, user, password = parsed.host, parsed.user, parsed.password
    except ValueError as error:
        raise UrlRejected("is not one") from error
    if parsed.scheme not in rules.schemes:
        raise UrlRejected(f"must begin with {' or '.join(rules.schemes)}")
    if not host:
        raise UrlRejected("names no host")
    if user is not None or password is not None:
        raise UrlRejected("must not have a user name or password")
    if rules.hosts and not is_covered(host, rules.hosts):
        raise UrlRejected("names a host that this server does not connect to")
    return parsed


def is_same_resource(one: URL, other: URL) -> bool:
    """Whether two URLs lead to the same path of a host. Queries, a slash at the end, the spelling of the host and a
    fragment make no other server."""
    return _resource(one) == _resource(other)


def _resource(url: URL) -> tuple[str, int | None, str]:
    return (url.host or "").lower().rstrip("."), url.port, url.path.rstrip("/")


def is_covered(host: str, patterns: Sequence[str]) -> bool:
    """Whether a host is one of these; `*.example.com` stands for all subdomains of one."""
    name = host.lower().rstrip(".")
    return any(name.endswith(pattern[1:]) if pattern.startswith("*.") else name == pattern for pattern in patterns)
