"""Fetches the images and files that requests name by URL, protected against SSRF.

A client could use a URL to send requests to servers that only this machine can reach. So:

* Only https, and only from the hosts that the operator names, if any are named. No user names in URLs.
* The IP address is checked when the socket to it is created (`_CheckedSockets`): whatever a name resolves to, and
  however the URL spells it, no connection is made to an address that is not public. There is no second DNS lookup, so
  DNS rebinding has no effect.
* A redirect is a new URL, with the same rules; at most MEDIA_REDIRECTS_MAX are followed.
* DNS lookups run in threads of their own (resolver.py).
* Bytes are counted as they are received, heads too (http_connections.py). One timeout holds for all URLs of a turn.
* No cookies, no credentials, no proxy from the environment; nothing is decompressed.
* The reason why an address was not reached goes to the log only: clients must not be able to map the network.

A URL is never passed on to an engine, which would fetch it by rules of its own.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from antiphon_core import limits
from antiphon_core.rpc.call_metadata import DEFAULT_TENANT
from antiphon_core.tracebacks import release_frames
from antiphon_translator.http_connections import REDIRECTS, BoundedConnector, EndlessFraming
from antiphon_translator.media import addresses
from antiphon_translator.media.downloads import Download, Downloads, Failure, Problem
from antiphon_translator.media.resolver import Resolver
from antiphon_translator.settings import TranslatorSettings

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
CHUNK_BYTES = 32  # content for a byte of framing: servers of files send chunks of kilobytes

_HEADERS = {"User-Agent": "antiphon", "Accept": "*/*", "Accept-Encoding": "identity"}
_LATE = Failure(Problem.DOWNLOAD, "it took too long")
_UNREACHED = Failure(Problem.DOWNLOAD, "its server cannot be reached from here")


class _Unusable(Exception):
    def __init__(self, problem: Problem, why: str) -> None:
        super().__init__(why)
        self.failure = Failure(problem, why)


@dataclass(frozen=True, slots=True)
class FetchRules:
    """The rules for fetching URLs. `permits` says whether an IP address may be connected to."""

    permits: Callable[[str], bool]
    can_fetch: bool = True
    hosts: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ("https",)
    timeout_s: float = 20.0

    @classmethod
    def of(cls, settings: TranslatorSettings) -> FetchRules:
        def permits(address: str) -> bool:
            return addresses.is_public(address) or (settings.media_private_addresses and addresses.is_internal(address))

        return cls(
            permits,
            can_fetch=settings.media_fetch,
            hosts=tuple(host.lower() for host in settings.media_hosts),
            schemes=("https", "http") if settings.media_http else ("https",),
            timeout_s=settings.media_timeout_s,
        )


class Fetcher:
    """Fetches URLs for all turns of a process. Create, use and close it inside one event loop."""

    def __init__(
        self, rules: FetchRules, *, resolver: AbstractResolver | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        """`tls` has the trusted certificates; without it, those of the system are trusted."""
        self._rules = rules
        self._tls = tls
        self._resolver = resolver or Resolver()
        self._session: aiohttp.ClientSession | None = None
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def fetch(self, wanted: Mapping[str, int], *, tenant: str = DEFAULT_TENANT) -> Downloads:
        """Fetches URLs, and returns the content or the failure of each. `wanted` maps each to its maximum of bytes. A
        tenant has MEDIA_TENANT_FETCHES_MAX fetches at once; the timeout includes the wait for the tenant's others."""
        found: dict[str, Download | Failure] = {}
        turn = _TurnLimits()
        share = self._shares.setdefault(tenant, asyncio.Semaphore(limits.MEDIA_TENANT_FETCHES_MAX))

        async def fetch_one(url: str, bytes_max: int) -> None:
            async with turn.slots, share:
                found[url] = await self._fetch(url, bytes_max, turn)

        try:
            async with asyncio.timeout(self._rules.timeout_s), asyncio.TaskGroup() as group:
                for url, bytes_max in wanted.items():
                    group.create_task(fetch_one(url, bytes_max))
        except TimeoutError:
            log.info("%d of %d URLs of a turn were not fetched in time", len(wanted) - len(found), len(wanted))
        return {url: found.get(url, _LATE) for url in wanted}

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()
        await self._resolver.close()

    async def _fetch(self, url: str, bytes_max: int, turn: _TurnLimits) -> Download | Failure:
        try:
            return await self._download(url, bytes_max, turn)
        except (_Unusable, aiohttp.ClientError, OSError, ValueError) as error:  # TimeoutError is an OSError
            failure = _failure(error)
            release_frames(error)  # aiohttp keeps the error, and the error what was received
            return failure

    async def _download(self, url: str, bytes_max: int, turn: _TurnLimits) -> Download:
        """Downloads a URL, and follows its redirects."""
        target = _check_url(url, self._rules)
        for _ in range(limits.MEDIA_REDIRECTS_MAX + 1):
            async with self._connect().get(target, allow_redirects=False) as response:
                if response.status == 200:
                    return Download(await _body(response, bytes_max, turn), _media_type(response))
                if response.status not in REDIRECTS or "Location" not in response.headers:
                    raise _Unusable(Problem.DOWNLOAD, f"its server answered with the status {response.status}")
                target = _check_url(str(target.join(URL(response.headers["Location"]))), self._rules)
        raise _Unusable(Problem.DOWNLOAD, f"its server redirects more than {limits.MEDIA_REDIRECTS_MAX} times")

    def _connect(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = BoundedConnector(
                chunk_bytes=CHUNK_BYTES,
                resolver=self._resolver,
                ssl=self._tls or True,
                socket_factory=_CheckedSockets(self._rules.permits),
                limit=limits.MEDIA_FETCHES_MAX,
                force_close=True,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=_HEADERS,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
                auto_decompress=False,
                trust_env=False,
            )
        return self._session


class _TurnLimits:
    """The limits that all fetches of one turn share: how many run at once, and how many bytes they have in total."""

    def __init__(self) -> None:
        self.slots = asyncio.Semaphore(limits.MEDIA_TURN_FETCHES_MAX)
        self._bytes_left = limits.MEDIA_BYTES_MAX

    def take(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            most = limits.MEDIA_BYTES_MAX // 2**20
            raise _Unusable(Problem.SIZE, f"all images and files of a turn can have at most {most} MiB")


class _CheckedSockets:
    """Creates the socket of each connection. OSError: its address may not be connected to."""

    def __init__(self, permits: Callable[[str], bool]) -> None:
        self._permits = permits

    def __call__(self, info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _name, address = info
        if not self._permits(str(address[0])):
            raise OSError(errno.EACCES, f"nothing may be fetched from the address {address[0]}")
        return socket.socket(family, kind, protocol)


def _failure(error: Exception) -> Failure:
    """The failure that the client is told of."""
    match error:
        case _Unusable():
            return error.failure
        case TimeoutError():
            return _LATE
        case EndlessFraming():
            return Failure(Problem.DOWNLOAD, f"its server {error}")
    log.info("a URL was not fetched: %s", _reason(error))
    return _UNREACHED


def _reason(error: Exception) -> str:
    """The reason of a failure for the log, without the URL: a signed URL gives access to its content."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    words = cause.strerror if isinstance(cause, OSError) else ""
    return f"{type(error).__name__} {words or ''}".strip()


def _check_url(url: str, rules: FetchRules) -> URL:
    """Parses a URL with the parser of the client that connects to it, and checks it against the rules."""
    if not rules.can_fetch:
        raise _Unusable(Problem.URL, "this server takes data: URLs only")
    if len(url) > limits.MEDIA_URL_CHARS_MAX:
        raise _Unusable(Problem.URL, f"the URL has more than {limits.MEDIA_URL_CHARS_MAX} characters")
    try:
        parsed = URL(url)
        host, user, password = parsed.host, parsed.user, parsed.password
    except ValueError as error:
        raise _Unusable(Problem.URL, "this is no URL") from error
    if parsed.scheme not in rules.schemes:
        raise _Unusable(Problem.URL, f"its URL must begin with {' or '.join(rules.schemes)}, or with data:")
    if not host:
        raise _Unusable(Problem.URL, "its URL names no host")
    if user is not None or password is not None:
        raise _Unusable(Problem.URL, "its URL must not have a user name or password")
    if rules.hosts and not any(_covers(pattern, host) for pattern in rules.hosts):
        raise _Unusable(Problem.URL, "this server does not fetch from that host")
    return parsed


def _covers(pattern: str, host: str) -> bool:
    name = host.lower().rstrip(".")
    return name.endswith(pattern[1:]) if pattern.startswith("*.") else name == pattern


def _media_type(response: aiohttp.ClientResponse) -> str:
    return response.content_type.lower() if response.headers.get("Content-Type") else ""


async def _body(response: aiohttp.ClientResponse, bytes_max: int, turn: _TurnLimits) -> bytes:
    """Reads the body of a response. Its bytes are counted, because Content-Length may be wrong."""
    too_large = f"it has more than {bytes_max / 2**20:g} MiB"
    if (response.content_length or 0) > bytes_max:
        raise _Unusable(Problem.SIZE, too_large)
    content = bytearray()
    async for received in response.content.iter_any():
        turn.take(len(received))
        content += received
        if len(content) > bytes_max:
            raise _Unusable(Problem.SIZE, too_large)
    return bytes(content)
