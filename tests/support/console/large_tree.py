"""Trees of many responses, made over the API as a client makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.support.console.chat_model import MODEL
from tests.support.http import Http

AT_ONCE = 16


async def grow(api: Http, parents: Sequence[int | None]) -> list[str]:
    """Makes a response for each parent, given by its index, and says their ids."""
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
    """A tree in which every node has so many children, as long as there are nodes."""
    return [None, *((index - 1) // most_children for index in range(1, count))]
