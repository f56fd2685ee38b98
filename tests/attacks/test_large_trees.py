"""A tenant asks for pages of a large tree, or for metrics, over many connections in a loop. Each page reads no more
than its limit, one page at a time, and all requests for metrics that wait share one text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from antiphon_core import limits
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.telemetry.exposition import Exposition
from antiphon_store.rows.model import Grow, Index, Program
from antiphon_store.service import StoreService
from antiphon_store.topics.node_pages import NodePages
from antiphon_store.topics.trees import tree_of
from tests.support.edge import running_edge
from tests.support.rows import SpiedRows

CONNECTIONS = 32
NODES = 12_000
SCAN, COUNTED, PART = 1_000, 1_000, 200  # a tenth of the limits, as the tree is a tenth of a large one
READ_MOST = 3 * SCAN + COUNTED + PART + 2 * NodePages.read_nodes_max
"""The limit; for a part, the ancestors of as many; a last step that goes over it; the children that are counted."""
FIELDS = {"session": None, "status": "completed", "version": 1, "deleted": 0, "expires": None, "size": 1}


async def grown(rows: SpiedRows, tenant: str, parents: Sequence[int | None]) -> list[str]:
    """A tree of nodes with these parents, by their numbers."""
    root = new_response_id(RandomIds())
    ids = [root, *(new_response_id(RandomIds(), relative=root) for _ in parents[1:])]
    above = [None if each is None else ids[each] for each in parents]
    changes = [Grow(each, parent, FIELDS | {"parent": parent}) for each, parent in zip(ids, above, strict=True)]
    await rows.rows.transact(tree_of(tenant, root), Program(changes=changes))
    return ids


SHAPES: dict[str, list[int | None]] = {
    "all children of one response": [None, *[0] * (NODES - 1)],
    "all children of its only child": [None, 0, *[1] * (NODES - 2)],
    "eight children each": [None, *[number // 8 for number in range(NODES - 1)]],
    "chains of a thousand": [None, *[0 if number % 1000 == 0 else number for number in range(NODES - 1)]],
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_pages_of_a_large_tree_read_a_bounded_number_of_responses_one_at_a_time(shape: str) -> None:
    rows = SpiedRows()
    await rows.open()
    store = StoreService(rows)
    store.scan_nodes_max, store.children_counted_max, store.part_nodes_max = SCAN, COUNTED, PART
    ids = await grown(rows, "attacker", SHAPES[shape])
    (victims,) = await grown(rows, "victim", [None])
    running = 0

    async def count(index: Index, _key: str) -> None:
        nonlocal running
        running += index in (Index.CHILDREN, Index.LEVEL, Index.CREATED)
        await asyncio.sleep(0)

    for start in (ids[0], ids[1], ids[-1]):
        for page_of in (store.tree, store.leaves, store.children, store.siblings):
            rows.forget_calls()
            page = await page_of("attacker", start)
            assert rows.nodes_read <= READ_MOST
            assert len(page.nodes) <= limits.TREE_NODES_DEFAULT
            if page.next_cursor is not None:
                rows.forget_calls()
                later = await page_of("attacker", start, cursor=page.next_cursor)
                assert rows.nodes_read <= READ_MOST
                assert {each.id for each in later.nodes}.isdisjoint(each.id for each in page.nodes)

    rows.after_page = count
    flood = [asyncio.create_task(store.tree("attacker", ids[0])) for _ in range(CONNECTIONS)]
    while not running:
        await asyncio.sleep(0)
    assert [each.id for each in (await store.tree("victim", victims)).nodes] == [victims]
    assert sum(each.done() for each in flood) <= 2  # the others wait for their turn
    for each in flood:
        each.cancel()
    await asyncio.gather(*flood, return_exceptions=True)


async def test_requests_for_metrics_share_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    text = Exposition.text

    def noted(self: Exposition, accept: str = "") -> tuple[bytes, str]:
        written.append(accept)
        return text(self, accept)

    monkeypatch.setattr(Exposition, "text", noted)
    async with running_edge() as edge:
        asked = [
            edge.ask("GET", "/v1/metrics", headers={"accept": f"text/plain; version=1.0.{number}"})
            for number in range(CONNECTIONS)
        ]
        answers = await asyncio.gather(*asked)
    assert {each.status for each in answers} == {200}
    assert len(written) <= CONNECTIONS // 4
