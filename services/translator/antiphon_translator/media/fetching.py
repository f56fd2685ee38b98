"""Fetches what requests name by URL, without becoming a tool of who wrote them.

A stranger's URL is a way to have this machine ask servers that only it can reach. So:

* Only https, and only of the hosts that the operator names, if any are named. No user names in URLs.
* The address is checked at the last moment, when the socket to it is made (`_Doorman`): whatever a name resolved to,
  and however the URL spelt it, nothing is connected to that is not public. There is no second look-up to be fooled by.
* A redirect is a new URL, with the same rules; there are few.
* Names are looked up by threads that do nothing else (resolver.py).
* Everything is counted while it comes, and all that a turn names comes within one time limit.
* No cookies, no credentials, no proxy from the environment; nothing is decompressed.
* Why an address was not reached is told to the log only. The caller learns nothing that would draw a map.

The URL is never passed on to an engine, which would fetch it by rules of its own.
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
from antiphon_translator.media import addresses
from antiphon_translator.media.downloads import Download, Downloads, Failure, Problem
from antiphon_translator.media.resolver import Resolver
from antiphon_translator.settings import TranslatorSettings

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
REDIRECTS = frozenset({301, 302, 303, 307, 308})

_HEADERS = {"User-Agent": "antiphon", "Accept": "*/*", "Accept-Encoding": "identity"}
_LATE = Failure(Problem.DOWNLOAD, "it took too long")
_UNREACHED = Failure(Problem.DOWNLOAD, "its server cannot be reached from here")


class _Unusable(Exception):
    def __init__(self, problem: Problem, why: str) -> None:
        super().__init__(why)
        self.failure = Failure(problem, why)


@dataclass(frozen=True, slots=True)
class FetchRules:
    """The rules for fetching URLs. `permits` judges addresses, written in full."""

    permits: Callable[[str], bool]
    fetches: bool = True
    hosts: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ("https",)
    timeout_s: float = 20.0

    @classmethod
    def of(cls, settings: TranslatorSettings) -> FetchRules:
        def permits(address: str) -> bool:
            return addresses.is_public(address) or (settings.media_private_addresses and addresses.is_internal(address))

        return cls(
            permits,
            fetches=settings.media_fetch,
            hosts=tuple(host.lower() for host in settings.media_hosts),
            schemes=("https", "http") if settings.media_http else ("https",),
            timeout_s=settings.media_timeout_s,
        )


class Fetcher:
    """Fetches for all turns of a process. Make, use and close it inside one event loop."""

    def __init__(
        self, rules: FetchRules, *, resolver: AbstractResolver | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        """`tls` says which certificates count; without it, those that the system trusts."""
        self._rules = rules
        self._tls = tls
        self._resolver = resolver or Resolver()
        self._session: aiohttp.ClientSession | None = None
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def fetch(self, wanted: Mapping[str, int], *, tenant: str = DEFAULT_TENANT) -> Downloads:
        """Fetches each URL; the result holds its content or its failure. `wanted` gives the most bytes of each. Turns
        of one tenant wait for each other, not for those of other tenants, and the wait counts as their time."""
        found: dict[str, Download | Failure] = {}
        turn = _Turn()
        share = self._shares.setdefault(tenant, asyncio.Semaphore(limits.MEDIA_TENANT_FETCHES_MAX))

        async def fetch_one(url: str, bytes_max: int) -> None:
            async with turn.places, share:
                found[url] = await self._fetched(url, bytes_max, turn)

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

    async def _fetched(self, url: str, bytes_max: int, turn: _Turn) -> Download | Failure:
        try:
            return await self._followed(url, bytes_max, turn)
        except _Unusable as error:
            return error.failure
        except TimeoutError:
            return _LATE
        except (aiohttp.ClientError, OSError, ValueError) as error:
            log.info("not fetched: %s", _reason(error))
            return _UNREACHED

    async def _followed(self, url: str, bytes_max: int, turn: _Turn) -> Download:
        place = _checked(url, self._rules)
        for _ in range(limits.MEDIA_REDIRECTS_MAX + 1):
            async with self._connected().get(place, allow_redirects=False) as response:
                if response.status == 200:
                    return Download(await _body(response, bytes_max, turn), _media_type(response))
                if response.status not in REDIRECTS or "Location" not in response.headers:
                    raise _Unusable(Problem.DOWNLOAD, f"its server answered with the status {response.status}")
                place = _checked(str(place.join(URL(response.headers["Location"]))), self._rules)
        raise _Unusable(Problem.DOWNLOAD, f"its server redirects more than {limits.MEDIA_REDIRECTS_MAX} times")

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                resolver=self._resolver,
                ssl=self._tls or True,
                socket_factory=_Doorman(self._rules.permits),
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


class _Turn:
    """The limits that all fetches of one turn share: how many run at once, and how many bytes they have together."""

    def __init__(self) -> None:
        self.places = asyncio.Semaphore(limits.MEDIA_TURN_FETCHES_MAX)
        self._bytes_left = limits.MEDIA_BYTES_MAX

    def take(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            most = limits.MEDIA_BYTES_MAX // 2**20
            raise _Unusable(Problem.SIZE, f"all images and files of a turn can have at most {most} MiB")


class _Doorman:
    """Makes the sockets, each for an address that it has seen: the only way out."""

    def __init__(self, permits: Callable[[str], bool]) -> None:
        self._permits = permits

    def __call__(self, info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _name, address = info
        if not self._permits(str(address[0])):
            raise OSError(errno.EACCES, f"{address[0]} is no address that may be fetched from")
        return socket.socket(family, kind, protocol)


def _reason(error: Exception) -> str:
    """Why nothing came, in words that repeat no URL: a signed one is a key to what stands behind it."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    words = cause.strerror if isinstance(cause, OSError) else ""
    return f"{type(error).__name__} {words or ''}".strip()


def _checked(url: str, rules: FetchRules) -> URL:
    """A URL that the rules allow, before any look-up. It is parsed by what will connect to it."""
    if not rules.fetches:
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


async def _body(response: aiohttp.ClientResponse, bytes_max: int, turn: _Turn) -> bytes:
    """All of an answer, counted while it comes: a length that is promised is not always kept."""
    most = _Unusable(Problem.SIZE, f"it has more than {bytes_max / 2**20:g} MiB")
    if (response.content_length or 0) > bytes_max:
        raise most
    content = bytearray()
    async for received in response.content.iter_any():
        turn.take(len(received))
        content += received
        if len(content) > bytes_max:
            raise most
    return bytes(content)
