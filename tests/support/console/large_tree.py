"""Creates trees of many responses over the API."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.support.console.chat_model import MODEL
from tests.support.http import Http

AT_ONCE = 16


async def grow(api: Http, parents: Sequence[int | None]) -> list[str]:
    """Creates a response for each parent, given by its index. Returns the ids of the responses."""
    ids: list[asyncio.Future[str]] = [asyncio.get_running_loop().create_future() for _ in parents]
    gate = asyncio.Semaphore(AT_ONCE)

    async def make(index: int, parent: int | None) -> None:
        previous = {} if parent is None else {"previous_response_id": await ids[parent]}
        async with gate:
            made = await api.create(model=MODEL, input=f"Question {index}", **previous)
        ids[index].set_result(made.json["id"])

    async with asyncio.TaskGroup() as group:
        for index, parent in enumerate(parents):
            group.create_task(make(index, parent))
    return [each.result() for each in ids]


def bushy(count: int, *, most_children: int = 4) -> list[int | None]:
    """Returns the parents of a tree in which each node has so many children, until `count` nodes are used."""
    return [None, *((index - 1) // most_children for index in range(1, count))]
