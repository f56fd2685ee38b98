"""Trees of 1,000 nodes and more. Times of the browser's trace are printed. The tests assert facts that do not depend on
the machine: the number of elements, and that panning changes no elements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.support.console.console_tab import ConsoleTab
from tests.support.console.large_tree import bushy, grow
from tests.support.http import Http

pytestmark = pytest.mark.asyncio(loop_scope="session")

NODES = 1_000
ELEMENTS_MAX = 400
"""The limit of elements in the tree view, for trees of any size."""
_MARKS = """() => {
  performance.mark("asked");
  new MutationObserver((_, observer) => {
    if (!document.querySelector("[role=treeitem]")) return;
    performance.mark("drawn");
    observer.disconnect();
  }).observe(document.body, { childList: true, subtree: true });
}"""
_COUNT_CHANGES = """() => {
  window.changes = 0;
  new MutationObserver((all) => { window.changes += all.filter(({ type }) => type === "childList").length; })
    .observe(document.querySelector(".plane"), { childList: true, subtree: true });
}"""

_PAN = """async () => {
  const stage = document.querySelector(".stage");
  const turn = { bubbles: true, cancelable: true, deltaX: 3, deltaY: 1.5 };
  performance.mark("begin");
  for (let frame = 0; frame < 120; frame += 1) {
    await new Promise(requestAnimationFrame);
    stage.dispatchEvent(new WheelEvent("wheel", turn));
  }
  performance.mark("end");
}"""


def frames_between(events: Sequence[dict[str, Any]], first: float, last: float) -> list[float]:
    """Returns the start times of the page's frames that were shown, in microseconds. The trace reports a frame twice if
    both threads of the page worked on it."""
    (page,) = {event["pid"] for event in events if event.get("cat") == "blink.user_timing"}
    shown: dict[int, float] = {}
    for event in events:
        if event["name"] == "PipelineReporter" and event["ph"] == "b" and event["pid"] == page:
            report = event["args"].get("chrome_frame_reporter") or event["args"]["frame_reporter"]
            if "PRESENTED" in report["state"] and first <= event["ts"] <= last:
                shown.setdefault(report["frame_sequence"], event["ts"])
    return sorted(shown.values())


def time_of(events: Sequence[dict[str, Any]], mark: str) -> float:
    """Returns the time of a mark, in microseconds."""
    return next(
        float(event["ts"]) for event in events if event["name"] == mark and event.get("cat") == "blink.user_timing"
    )


async def traced(browser: Browser, page: Page, steps: Any) -> list[dict[str, Any]]:
    await browser.start_tracing(page=page, categories=["cc", "blink.user_timing"])
    try:
        await steps()
    finally:
        trace = await browser.stop_tracing()
    events: list[dict[str, Any]] = json.loads(trace)["traceEvents"]
    return events


async def test_panning_a_tree_of_a_thousand_nodes_changes_no_elements(
    console: ConsoleTab, api: Http, browser: Browser
) -> None:
    page = console.page
    ids = await grow(api, bushy(NODES))
    await console.open()

    async def open_tree() -> None:
        await page.evaluate(_MARKS)
        await console.go(f"#/tree/{ids[0]}")
        await expect(page.get_by_role("treeitem").first).to_be_visible()
        await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    events = await traced(browser, page, open_tree)
    drawn = time_of(events, "drawn")
    asked = time_of(events, "asked")
    painted = min(frames_between(events, drawn, float("inf")), default=drawn)
    print(f"\nfirst paint of {NODES:,} nodes: {(painted - asked) / 1000:.0f} ms after they were asked for")

    await expect(page.locator(".count")).to_have_text(f"{NODES:,} nodes")
    await pan_and_print(page, browser, "cards")
    await page.get_by_role("button", name="Fit").click()
    await expect(page.locator(".marks path")).not_to_have_count(0)
    await pan_and_print(page, browser, "all nodes in sight")
    nodes = (await api.get(f"/v1/responses/{ids[-1]}/tree?from_root=true&limit=10000")).json["data"]
    assert {node["id"] for node in nodes} == set(ids)


async def pan_and_print(page: Page, browser: Browser, what: str) -> None:
    """Pans the tree within its drawn part, and prints the number of frames."""
    await page.evaluate(_COUNT_CHANGES)
    before = await page.locator(".plane").get_attribute("style")
    events = await traced(browser, page, lambda: page.evaluate(_PAN))
    begin, end = time_of(events, "begin"), time_of(events, "end")
    frames, seconds = frames_between(events, begin, end), (end - begin) / 1e6
    print(f"panning, {what}: {len(frames)} frames in {seconds * 1000:.0f} ms, {len(frames) / seconds:.0f} fps")
    assert await page.locator(".plane").get_attribute("style") != before
    assert await page.evaluate("window.changes") == 0
    assert await page.locator(".stage *").count() < ELEMENTS_MAX


async def test_a_chain_of_five_thousand_turns_is_folded_to_three_tree_items(console: ConsoleTab) -> None:
    """A store refuses chains of more than 1,000 turns, so the test itself serves the pages of this tree."""
    count, page_size = 5_000, 1_000
    ids = [f"resp_{index}" for index in range(count)]

    async def answer(route: Any) -> None:
        first = int(route.request.url.partition("cursor=")[2] or 0)
        data = [
            {
                "id": ids[index],
                "object": "response.node",
                "parent_id": ids[index - 1] if index else None,
                "status": "completed",
                "depth": index,
                "child_count": int(index + 1 < count),
                "created_at": 0,
            }
            for index in range(first, first + page_size)
        ]
        following = first + page_size
        cursor = str(following) if following < count else None
        await route.fulfill(
            json={"object": "list", "data": data, "next_cursor": cursor, "has_more": cursor is not None}
        )

    page = console.page
    await page.route("**/tree?**", answer)
    await page.route(
        "**/v1/responses/resp_*", lambda route: route.fulfill(status=404, json={"error": {"message": "gone"}})
    )
    await page.route("**/input_items?**", lambda route: route.fulfill(json={"data": [], "has_more": False}))
    await console.open(f"#/tree/{ids[0]}")
    await expect(page.locator(".count")).to_have_text(f"first {page_size:,} nodes")
    for loaded in range(2 * page_size, count + 1, page_size):
        await page.get_by_role("button", name="Load more").click()
        await expect(page.locator(".count")).to_contain_text(f"{loaded:,} nodes")
    await expect(page.get_by_role("button", name="Load more")).to_have_count(0)
    await expect(page.get_by_role("treeitem")).to_have_count(3)
    tree = page.get_by_role("tree")
    await tree.press("ArrowDown")
    await tree.press("Enter")
    await tree.press("End")
    await expect(page.get_by_role("treeitem", selected=True)).to_have_attribute("aria-level", str(count))
    assert await page.locator(".stage *").count() < ELEMENTS_MAX
