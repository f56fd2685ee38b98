"""Answers with many rows, without a server."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import pytest

from antiphon_core.jsons import dumps
from antiphon_store.backends.redis import programs
from antiphon_store.backends.redis.addresses import parse_address
from antiphon_store.backends.redis.backend import RedisRows
from antiphon_store.backends.redis.programs import to_nodes
from antiphon_store.rows.model import Partition, Row
from antiphon_store.testing.subject import draft
from tests.support.rows import node

NODE = node(draft())
LINES = "".join(f'\n,"{name}":{dumps(value).decode()}' for name, value in NODE.fields.items()).encode()


@pytest.mark.parametrize(("count", "is_inline"), [(1, True), (20_000, False)])
async def test_nodes_of_a_large_tree_are_parsed_outside_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, count: int, is_inline: bool
) -> None:
    rows = RedisRows(parse_address("redis", "localhost"))
    threads: set[int] = set()

    async def answer(*_call: object) -> list[object]:
        return [b"ok", 5, [b"n%d" % number for number in range(count)], [LINES] * count]

    def spied(ids: Sequence[str], texts: Sequence[bytes | None]) -> Iterator[Row | None]:
        threads.add(threading.get_ident())
        return to_nodes(ids, texts)

    monkeypatch.setattr(rows, "_run", answer)
    monkeypatch.setattr(rows, "_atom", nullcontext)
    monkeypatch.setattr(programs, "to_nodes", spied)
    now_ms, found = await rows.subtree(Partition("t", "tree"), ["n0"], max_nodes=count)
    assert (now_ms, len(found), found[0].row) == (5, count, Row(NODE.fields))
    assert (threading.get_ident() in threads) is is_inline
    assert len(threads) == 1
