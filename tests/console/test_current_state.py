"""Views show the current state of the server: after a lost connection, a deletion, and turns of other clients."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Browser, Dialog, Route, expect

from tests.support.console.chat_model import MODEL
from tests.support.console.console_tab import ConsoleTab, console_tab
from tests.support.console.large_tree import bushy, grow
from tests.support.http import Http
from tests.support.system import System
from tests.support.volume import volume

pytestmark = pytest.mark.asyncio(loop_scope="session")

VIEWS = ["chat", "tree", "response", "compare"]


async def made(api: Http, text: str, **fields: str) -> str:
    answer = await api.create(model=MODEL, input=text, **fields)
    assert answer.status == 200, answer.body
    response_id: str = answer.json["id"]
    return response_id


def route_of(view: str, response_id: str) -> str:
    return f"#/{view}/{response_id}" + (f"/{response_id}" if view == "compare" else "")


async def abort(route: Route) -> None:
    await route.abort()


@pytest.mark.parametrize("view", VIEWS)
async def test_a_view_that_failed_to_load_is_loaded_when_it_opens_again(
    console: ConsoleTab, api: Http, view: str
) -> None:
    response_id = await made(api, "Load me")
    await console.open()
    await console.page.route(re.compile("/v1/responses/"), abort)
    await console.go(route_of(view, response_id))
    await expect(console.page.get_by_role("alert").first).to_contain_text("Failed to fetch")
    await expect(console.page.get_by_text("Loading…")).to_have_count(0)
    await console.go("#/live")
    await console.page.unroute(re.compile("/v1/responses/"))
    await console.go(route_of(view, response_id))
    await expect(console.page.locator("main")).to_contain_text("You said: Load me")
    await expect(console.page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("view", volume(["chat"], VIEWS))
async def test_a_view_that_failed_to_load_is_loaded_when_the_browser_is_back_online(
    browser: Browser, console_system: System, api: Http, view: str
) -> None:
    """Each in a context of its own: tabs of one process would learn of the connection before their requests have it.
    That every view loads by `loading.js`, which follows the connection, is shown above."""
    response_id = await made(api, "Load me")
    async with console_tab(browser, console_system.url) as console:
        await console.open()
        await console.page.context.set_offline(True)
        await console.go(route_of(view, response_id))
        await expect(console.page.get_by_role("alert").first).to_contain_text("Failed to fetch")
        await console.page.context.set_offline(False)
        await expect(console.page.locator("main")).to_contain_text("You said: Load me")
        await expect(console.page.get_by_role("alert")).to_have_count(0)
        assert console.faults == []


async def test_a_deleted_conversation_leaves_the_lists_of_the_tab(console: ConsoleTab) -> None:
    async def accept(dialog: Dialog) -> None:
        await dialog.accept()

    console.page.on("dialog", accept)
    await console.open()
    await console.page.get_by_label("In the background").check()
    response_id = await console.ask("One")
    recent = console.page.get_by_role("region", name="This tab")
    await expect(recent.get_by_role("link")).to_have_count(1)
    await console.go(f"#/response/{response_id}")
    await console.button("Delete").click()
    await expect(recent).to_have_count(0)
    await console.go("#/live")
    await expect(console.page.get_by_text("Nothing runs")).to_be_visible()


async def test_the_error_of_a_deletion_does_not_stay_with_the_response(console: ConsoleTab) -> None:
    async def accept(dialog: Dialog) -> None:
        await dialog.accept()

    async def abort_deletions(route: Route) -> None:
        await (route.abort() if route.request.method == "DELETE" else route.continue_())

    console.page.on("dialog", accept)
    await console.open()
    response_id = await console.ask("One")
    await console.page.route(f"**/v1/responses/{response_id}", abort_deletions)
    await console.go(f"#/response/{response_id}")
    await console.button("Delete").click()
    await expect(console.page.get_by_role("alert")).to_contain_text("Failed to fetch")
    await console.go(f"#/chat/{response_id}")
    await expect(console.turns.first.locator("footer .status")).to_have_text("Completed")
    await expect(console.page.get_by_role("alert")).to_have_count(0)


async def test_a_tree_that_opens_again_shows_the_turns_of_other_clients(console: ConsoleTab, api: Http) -> None:
    await console.open()
    response_id = await console.ask("One")
    await made(api, "Two", previous_response_id=response_id)
    await console.go(f"#/tree/{response_id}")
    await expect(console.page.get_by_role("treeitem")).to_have_count(2)


# Two frames, and the effects of views that run after them.
TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"


async def test_a_tree_stays_where_the_user_moved_it_as_more_is_loaded(console: ConsoleTab, api: Http) -> None:
    ids = await grow(api, bushy(60))
    await console.page.route("**/tree?**", lambda route: route.continue_(url=route.request.url.replace("1000", "59")))
    await console.open(f"#/tree/{ids[0]}")
    await expect(console.selected).to_be_visible()
    await console.page.evaluate(TWO_FRAMES)  # the view moves to the selected response first
    await console.page.get_by_role("tree").dispatch_event("wheel", {"deltaX": 300, "deltaY": 4000})
    plane = console.page.locator(".plane")
    await expect(plane).to_have_attribute("style", re.compile(r"translate\(.*, -\d{4}"))
    moved = await plane.get_attribute("style")
    await console.button("Load more").click()
    await expect(console.page.locator(".count")).to_have_text("60 nodes")
    await console.page.evaluate(TWO_FRAMES)
    assert await plane.get_attribute("style") == moved


async def test_a_file_that_was_removed_can_be_attached_again(console: ConsoleTab) -> None:
    await console.open()
    field = console.page.locator("input[type=file]")
    await field.set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"A"})
    await expect(console.page.locator(".attachments")).to_contain_text("a.txt")
    assert await field.evaluate("field => field.value") == "", "the browser tells only of another file"
