from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol

from antiphon_core.limits import CHUNK_FRAMING_BYTES_MAX
from antiphon_edge.http.chunk_framing import FramingBound, FramingTooLarge

MOST = CHUNK_FRAMING_BYTES_MAX


async def begun(content: bytes = b"") -> tuple[FramingBound, StreamReader]:
    body = StreamReader(Mock(BaseProtocol), 2**20, loop=asyncio.get_running_loop())
    body.feed_data(content)
    bound = FramingBound()
    bound.begin(body)
    return bound, body


async def test_framing_up_to_the_limit_is_allowed_beside_any_content() -> None:
    bound, body = await begun(b"came with the head")
    assert bound.note_received(MOST)
    body.feed_data(b"x" * MOST)
    assert bound.note_received(MOST)
    assert body.exception() is None


async def test_more_framing_makes_reading_the_body_fail() -> None:
    bound, body = await begun()
    body.feed_data(b"x" * 10)
    assert bound.note_received(MOST + 10)
    assert not bound.note_received(1)
    with pytest.raises(FramingTooLarge):
        await body.readany()


async def test_what_follows_a_complete_body_does_not_count() -> None:
    bound, body = await begun()
    body.feed_eof()
    assert bound.note_received(MOST + 1)
    assert FramingBound().note_received(MOST + 1)  # no body in chunks
