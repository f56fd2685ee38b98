"""Waiting for more of a log: an append in this process wakes its followers, polling finds out about all others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_Key = tuple[str, str]  # tenant, response


class News:
    """What one follower waits for. Comes at once when there was some since the last time."""

    def __init__(self, *, poll_s: float) -> None:
        self._poll_s = poll_s
        self._heard = asyncio.Event()

    def tell(self) -> None:
        self._heard.set()

    async def wait(self) -> None:
        """Returns when the log may have grown: it is for the backend to say whether it did."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._poll_s):
                await self._heard.wait()
        self._heard.clear()


class Followers:
    """Who follows which log in this process."""

    def __init__(self, *, poll_s: float) -> None:
        self._poll_s = poll_s
        self._following: dict[_Key, set[News]] = {}

    @contextmanager
    def following(self, key: _Key) -> Iterator[News]:
        news = News(poll_s=self._poll_s)
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
