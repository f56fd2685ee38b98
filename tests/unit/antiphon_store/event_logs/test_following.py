from __future__ import annotations

import asyncio

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_store.event_logs.following import Followers

KEY = ("t", "resp_1")


async def test_news_come_at_once_to_all_who_follow() -> None:
    followers = Followers(poll_s=60)
    with followers.following(KEY) as one, followers.following(KEY) as two, followers.following(("t", "x")) as other:
        waiting = [asyncio.create_task(news.wait()) for news in (one, two, other)]
        await asyncio.sleep(0)
        followers.wake(KEY)
        await asyncio.wait_for(asyncio.gather(*waiting[:2]), 30)
        assert not waiting[2].done()
        waiting[2].cancel()


async def test_news_from_before_the_waiting_are_not_lost() -> None:
    followers = Followers(poll_s=60)
    with followers.following(KEY) as news:
        followers.wake(KEY)
        await asyncio.wait_for(news.wait(), 30)
        waiting = asyncio.create_task(news.wait())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        waiting.cancel()


async def test_without_news_waiting_ends_after_a_while() -> None:
    with Followers(poll_s=0.01).following(KEY) as news:
        await asyncio.wait_for(news.wait(), 30)


async def test_those_who_left_are_forgotten() -> None:
    followers = Followers(poll_s=60)
    with followers.following(KEY):
        pass
    followers.wake(KEY)
    assert not followers._following


async def test_a_process_that_stops_ends_all_following_behind_what_there_is() -> None:
    followers = Followers(poll_s=3600)
    with followers.following(KEY) as news:
        waiting = asyncio.create_task(news.wait())
        await asyncio.sleep(0)
        followers.end_waits()
        await waiting  # for a last look at the log
        with followers.following(KEY) as later:
            for each in (news, later):
                with pytest.raises(StoreUnavailable):
                    await each.wait()
