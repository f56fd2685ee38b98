"""Fetches the images and files that requests name by URL, protected against SSRF.

A client could use a URL to send requests to servers that only this machine can reach. So:

* Only https, and only from the hosts that the operator names, if any are named. No user names in URLs.
* The IP address is checked when the socket to it is created, and answers are bounded (antiphon_core/egress).
* A redirect is a new URL, with the same rules; at most MEDIA_REDIRECTS_MAX are followed.
* DNS lookups run in threads of their own.
* Bytes are counted as they are received. One timeout holds for all URLs of a turn.
* The reason why an address was not reached goes to the log only: clients must not be able to map the network.

A URL is never passed on to an engine, which would fetch it by rules of its own.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakValueDictionary

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from antiphon_core import limits
from antiphon_core.egress.guarded_session import guarded_session
from antiphon_core.egress.http_connections import REDIRECTS, EndlessFraming
from antiphon_core.egress.resolver import Resolver
from antiphon_core.egress.urls import EgressRules, UrlRejected, check_url, permits_of, schemes_of
from antiphon_core.rpc.call_metadata import DEFAULT_TENANT
from antiphon_core.tracebacks import release_frames
from antiphon_translator.media.downloads import Download, Downloads, Failure, Problem
from antiphon_translator.settings import TranslatorSettings

log = logging.getLogger(__name__)

CHUNK_BYTES = 32  # content for a byte of framing: servers of files send chunks of kilobytes

_HEADERS = {"User-Agent": "antiphon", "Accept": "*/*", "Accept-Encoding": "identity"}
_LATE = Failure(Problem.DOWNLOAD, "it took too long")
_UNREACHED = Failure(Problem.DOWNLOAD, "its server cannot be reached from here")


class _Unusable(Exception):
    def __init__(self, problem: Problem, why: str) -> None:
        super().__init__(why)
        self.failure = Failure(problem, why)


@dataclass(frozen=True, slots=True)
class FetchRules(EgressRules):
    """The rules for fetching URLs."""

    can_fetch: bool = True
    timeout_s: float = 20.0

    @classmethod
    def of(cls, settings: TranslatorSettings) -> FetchRules:
        return cls(
            permits_of(private_addresses=settings.media_private_addresses),
            hosts=tuple(host.lower() for host in settings.media_hosts),
            schemes=schemes_of(http=settings.media_http),
            can_fetch=settings.media_fetch,
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
        self._resolver = resolver or Resolver(limits.MEDIA_FETCHES_MAX)
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
            self._session = guarded_session(
                self._rules.permits,
                self._resolver,
                headers=_HEADERS,
                chunk_bytes=CHUNK_BYTES,
                connections_max=limits.MEDIA_FETCHES_MAX,
                tls=self._tls,
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
    if not rules.can_fetch:
        raise _Unusable(Problem.URL, "this server takes data: URLs only")
    try:
        return check_url(url, rules)
    except UrlRejected as error:
        raise _Unusable(Problem.URL, f"its URL {error}") from error


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
