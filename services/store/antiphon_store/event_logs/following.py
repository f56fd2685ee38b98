"""Waiting for more of a log: an append in this process wakes its followers, polling finds out about all others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from antiphon_store.waiting import stopping

_Key = tuple[str, str]  # tenant, response


class News:
    """What one follower waits for. Comes at once when there was some since the last time."""

    def __init__(self, *, poll_s: float) -> None:
        self._poll_s = poll_s
        self._heard = asyncio.Event()
        self._is_over = False

    def tell(self) -> None:
        self._heard.set()

    def end(self) -> None:
        self._is_over = True
        self._heard.set()

    async def wait(self) -> None:
        """Returns when the log may have grown: it is for the backend to say whether it did. StoreUnavailable: this
        process stops."""
        if self._is_over:
            raise stopping()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._poll_s):
                await self._heard.wait()
        self._heard.clear()


class Followers:
    """Who follows which log in this process."""

    def __init__(self, *, poll_s: float) -> None:
        self._poll_s = poll_s
        self._following: dict[_Key, set[News]] = {}
        self._is_over = False

    @contextmanager
    def following(self, key: _Key) -> Iterator[News]:
        news = News(poll_s=self._poll_s)
        if self._is_over:
            news.end()
        self._following.setdefault(key, set()).add(news)
        try:
            yield news
        finally:
            others = self._following[key]
            others.remove(news)
            if not others:
                del self._following[key]

    def wake(self, key: _Key) -> None:
        for news in self._following.get(key, ()):
            news.tell()

    def end_waits(self) -> None:
        """Ends all following, from now on, behind what there is."""
        self._is_over = True
        for following in self._following.values():
            for news in following:
                news.end()
