"""Addresses of gRPC servers: their form, and whether they are on this machine."""

from __future__ import annotations

from ipaddress import ip_address


def address(host: str, port: int) -> str:
    """Host and port in the form that gRPC expects, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`. Names other than localhost are not resolved, because they may
    change."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def stays_here(endpoint: str) -> bool:
    """Whether calls to a gRPC target, such as dns:///host:port or unix:path, stay on this machine."""
    scheme, colon, rest = endpoint.partition(":")
    if colon and scheme in ("unix", "unix-abstract"):
        return True
    target = rest.rpartition("/")[2] if colon and scheme in ("dns", "ipv4", "ipv6") else endpoint
    host = target.partition("]")[0].removeprefix("[") if target.startswith("[") else target.rpartition(":")[0]
    return is_loopback(host)
