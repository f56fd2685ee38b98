"""Use cases of the console. Each test compares the page with the answers of the API."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Browser, BrowserContext, Dialog, expect

from antiphon_core.jsons import dumps, loads
from tests.support.api_keys import KeyFiles
from tests.support.console.chat_model import MODEL, PLACE, ChatModel
from tests.support.console.console_tab import ConsoleTab, console_tab, tab_in
from tests.support.console.prefix_proxy import below_prefix
from tests.support.http import Answer, Http
from tests.support.images import png
from tests.support.ports import free_ports
from tests.support.system import Command, System
from tests.support.waiting import PAUSE_S, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def text_of(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] for part in item.get("content") or [])


async def once_stored(api: Http, response_id: str) -> Answer:
    """Returns a response once it is stored. A stopped response is stored a moment after its client disconnected."""
    while (answer := await api.get(f"/v1/responses/{response_id}")).status == 404:
        await asyncio.sleep(PAUSE_S)
    return answer


async def test_an_answer_is_rendered_stored_and_shown_after_a_reload(console: ConsoleTab, api: Http) -> None:
    await console.open()
    response_id = await console.ask("What is a **tree**?")
    await expect(console.turns.first.locator(".answered strong")).to_have_text("tree")
    stored = (await api.get(f"/v1/responses/{response_id}")).json
    assert text_of(stored) == "You said: What is a **tree**?"
    assert console.shown_id == response_id
    await console.page.reload()
    await expect(console.turns.first.locator(".answered strong")).to_have_text("tree")


async def test_a_streaming_answer_shows_its_text_status_and_figures(
    console: ConsoleTab, api: Http, model: ChatModel
) -> None:
    model.close_gate()
    await console.open()
    await console.write("Wait, and count.")
    turn = console.turns.first
    await expect(turn.locator(".answered")).to_contain_text("word-3")
    await expect(turn.locator("footer .status")).to_have_text("In progress")
    await expect(turn.locator(".figures")).to_contain_text("first token")
    await expect(turn.locator(".figures")).to_contain_text("tokens/s")
    model.open_gate()
    response_id = await console.ended_turn(0)
    stored = (await api.get(f"/v1/responses/{response_id}")).json
    await expect(turn.locator(".figures")).to_contain_text(
        f"{stored['usage']['input_tokens']} → {stored['usage']['output_tokens']}"
    )
    assert text_of(stored).startswith("word-1 word-2 ")


async def test_stop_cancels_the_answer_and_stores_its_partial_text(
    console: ConsoleTab, api: Http, model: ChatModel
) -> None:
    model.close_gate()
    stopped = model.stops
    await console.open()
    await console.write("Wait until I stop you.")
    await expect(console.turns.first.locator(".answered")).to_contain_text("word-2")
    await console.button("Stop").click()
    response_id = await console.ended_turn(0, "Cancelled")
    stored = (await once_stored(api, response_id)).json
    assert stored["status"] == "cancelled"
    assert text_of(stored).startswith("word-1 ")
    await expect(console.turns.first.locator(".answered")).to_contain_text("word-2")
    await until(lambda: model.stops == stopped + 1, "the model stopped")


async def test_a_fork_from_an_earlier_answer_adds_a_branch(console: ConsoleTab, api: Http) -> None:
    await console.open()
    ids = [await console.ask(f"Question {number}") for number in range(1, 6)]
    await console.turns.nth(2).get_by_role("button", name="Fork from here").click()
    await expect(console.turns).to_have_count(3)
    forked = await console.ask("Another question 4")
    await expect(console.turns.nth(3).locator(".branches")).to_contain_text("2 / 2")
    children = (await api.get(f"/v1/responses/{ids[2]}/children")).json["data"]
    assert [node["id"] for node in children] == [ids[3], forked]
    await console.turns.nth(3).get_by_role("button", name="Previous branch").click()
    await expect(console.turns).to_have_count(5)
    await console.page.get_by_role("link", name="Tree").click()
    await expect(console.page.get_by_role("treeitem")).to_have_count(6)


async def test_compare_shows_the_differences_of_sibling_responses(
    console: ConsoleTab, api: Http, model: ChatModel
) -> None:
    model.answers = {"Which colour?": ["The house is red.", "The house is blue."]}
    await console.open()
    first = await console.ask("Which colour?")
    root = await console.ask("Which colour?")
    await console.page.get_by_label("Temperature").fill("0.5")
    await console.go(f"#/tree/{root}")
    await expect(console.selected).to_have_attribute("id", f"node-{root}")
    tree = console.page.get_by_role("tree")
    await tree.press("r")
    await expect(console.page.get_by_text("as its sibling")).to_be_visible()
    await console.page.get_by_label("Temperature").fill("0.5")
    await console.button("Send").click()
    await expect(console.turns.nth(1).locator(".branches")).to_contain_text("2 / 2")
    other = await console.ended_turn(1)
    await console.go(f"#/tree/{root}")
    await expect(console.selected).to_have_attribute("id", f"node-{root}")
    await tree.press("c")
    await expect(console.page.locator("mark.removed")).to_have_text("blue")
    await expect(console.page.locator("mark.added")).to_have_text("red")
    await expect(console.page.get_by_role("row", name="temperature")).to_contain_text("0.5")
    siblings = (await api.get(f"/v1/responses/{root}/siblings")).json["data"]
    assert [node["id"] for node in siblings] == [other]
    assert (await api.get(f"/v1/responses/{other}")).json["previous_response_id"] == first


async def test_the_tree_shows_what_was_cached_and_why_the_rest_was_not(console: ConsoleTab, api: Http) -> None:
    await console.open()
    await console.page.get_by_label("Instructions").fill("Be careful.")
    first = await console.ask("What is a tree?")
    await console.page.get_by_label("Instructions").fill("Be quick.")
    second = await console.ask("And a forest?")
    usage = (await api.get(f"/v1/responses/{second}")).json["usage"]
    await console.go(f"#/tree/{second}")
    for response_id in (first, second):
        await expect(console.page.locator(f"#node-{response_id} .meter.cache")).to_be_visible()
    cached = usage["input_tokens_details"]["cached_tokens"]
    bar = console.page.locator(f"#node-{second} .meter.cache")
    await expect(bar).to_have_attribute(
        "title", re.compile(rf"^Cached {cached}, Lost \d+, New \d+ · Replica [0-9a-f]{{4}}$")
    )
    await console.button("Why?").click()
    why = console.page.locator(".why")
    await expect(why).to_contain_text("The instructions changed in instructions")
    found = (await api.get(f"/v1/responses/{second}/cache?compare=parent")).json["comparison"]
    assert found["first_difference"]["cause"] == "instructions"


@asynccontextmanager
async def another_edge(system: System, port: int, *options: str) -> AsyncIterator[Command]:
    """Starts a second edge over the store and the translator of `antiphon up`."""
    lines = system.commands["up"]
    store, translator = (lines.wait_for(rf"^{name} +(\S+:\d+)")[1] for name in ("store", "translator"))
    edge = Command(
        "serve",
        "--target=edge",
        f"--edge-port={port}",
        f"--edge-store={store}",
        f"--edge-translator={translator}",
        *options,
    )
    try:
        edge.wait_for(r"^edge +http")
        yield edge
    finally:
        edge.kill()


async def test_a_background_response_is_followed_across_an_edge_restart(
    context: BrowserContext, console_system: System, api: Http, model: ChatModel
) -> None:
    model.close_gate()
    (port,) = free_ports(1)
    async with tab_in(context, f"http://127.0.0.1:{port}") as here:
        async with another_edge(console_system, port):
            await here.open()
            await here.page.get_by_label("In the background").check()
            await here.write("Wait in the background.")
            await expect(here.turns.first.locator(".answered")).to_contain_text("word-3")
            response_id = here.shown_id
            await here.go("#/live")
        await expect(here.page.get_by_text("Connection lost.")).to_be_visible()
        async with another_edge(console_system, port):
            await expect(here.page.get_by_text("Connection lost.")).to_be_hidden()
            assert re.search(r"stream=true&starting_after=\d+$", here.addresses[-1])
            model.open_gate()
            row = here.page.locator(f"[data-id={response_id}]")
            await expect(row.locator(".status")).to_have_text("Completed")
            stored = (await api.get(f"/v1/responses/{response_id}")).json
            await here.go(f"#/response/{response_id}")
            await here.page.get_by_role("tab", name="Events").click()
            events = (await api.get(f"/v1/responses/{response_id}?stream=true")).events
            await expect(here.page.locator(".player")).to_contain_text(f"{len(events):,} events")
            await here.go(f"#/chat/{response_id}")
            assert (await here.turns.first.locator(".answered .prose").inner_text()).strip() == text_of(stored).strip()
        assert here.faults == []


async def test_cancel_ends_a_background_response(console: ConsoleTab, api: Http, model: ChatModel) -> None:
    model.close_gate()
    await console.open()
    await console.page.get_by_label("In the background").check()
    await console.write("Wait to be cancelled.")
    await expect(console.turns.first.locator(".answered")).to_contain_text("word-1")
    response_id = console.shown_id
    await console.page.get_by_role("link", name="Live").click()
    row = console.page.locator(f"[data-id={response_id}]")
    await row.get_by_role("button", name="Cancel").click()
    await expect(row.locator(".status")).to_have_text("Cancelled")
    assert (await api.get(f"/v1/responses/{response_id}")).json["status"] == "cancelled"
    model.open_gate()


@pytest.mark.parametrize("view", ["chat", "response"])
async def test_a_running_background_response_is_followed_where_it_is_opened(
    browser: Browser, console: ConsoleTab, console_system: System, model: ChatModel, view: str
) -> None:
    model.close_gate()
    await console.open()
    await console.page.get_by_label("In the background").check()
    await console.write("Wait to be opened elsewhere.")
    await expect(console.turns.first.locator(".answered")).to_contain_text("word-1")
    async with console_tab(browser, console_system.url) as other:
        await other.open(f"#/{view}/{console.shown_id}")
        await expect(other.page.locator("main")).to_contain_text("word-2")
        if view == "response":
            await other.page.get_by_role("tab", name="Events").click()
            await expect(other.page.get_by_role("option").nth(5)).to_be_visible()
        model.open_gate()
        await expect(other.page.locator("main")).to_contain_text("Completed")
        assert len([address for address in other.addresses if "stream=true" in address]) == 1
        assert other.faults == []


async def test_a_typed_tool_output_is_sent_and_answered(console: ConsoleTab, api: Http) -> None:
    await console.open()
    tools = console.page.get_by_label("Tools")
    await tools.fill('[{"type": "function", "name": "get weather"}]')
    await expect(console.page.get_by_role("alert")).to_contain_text("tools[0].name")
    await tools.fill('[\n  {"type" "function"}]')
    await expect(console.page.get_by_role("alert")).to_contain_text("Line 2, column 11")
    await tools.fill(dumps([WEATHER]).decode())
    called = await console.ask("How is the weather?")
    await expect(console.turns.first.locator(".tool")).to_contain_text("get_weather")
    await console.page.get_by_label("Output of get_weather").fill("sunny")
    await console.button("Send outputs").click()
    told = await console.ended_turn(1)
    await expect(console.turns.nth(1).locator(".answered")).to_contain_text("The tool says: sunny")
    (item,) = (await api.get(f"/v1/responses/{told}/input_items")).json["data"]
    (call,) = (await api.get(f"/v1/responses/{called}")).json["output"]
    assert (item["type"], item["output"], item["call_id"]) == ("function_call_output", "sunny", call["call_id"])
    assert loads(call["arguments"]) == loads(PLACE)


async def test_a_dropped_image_is_sent_with_the_message(console: ConsoleTab, api: Http) -> None:
    picture = png(8, 8)
    await console.open()
    dropped = await console.page.evaluate_handle(
        """(bytes) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([new Uint8Array(bytes)], "dot.png", { type: "image/png" }));
          return transfer;
        }""",
        list(picture),
    )
    await console.page.dispatch_event(".composer", "drop", {"dataTransfer": dropped})
    await expect(console.page.locator(".attachments")).to_contain_text("dot.png")
    response_id = await console.ask("What is this?")
    await expect(console.turns.first.locator(".answered")).to_contain_text("I see an image.")
    await expect(console.turns.first.get_by_role("img", name="Image")).to_be_visible()
    (item,) = (await api.get(f"/v1/responses/{response_id}/input_items")).json["data"]
    urls = [part["image_url"] for part in item["content"] if part["type"] == "input_image"]
    assert urls == [f"data:image/png;base64,{b64encode(picture).decode()}"]


async def test_a_wrong_api_key_shows_the_error_and_a_valid_key_signs_in(
    context: BrowserContext, console_system: System, tmp_path: Path
) -> None:
    keys = KeyFiles(tmp_path)
    good, wrong = keys.make("default"), keys.make("default")[:-1] + "x"
    (port,) = free_ports(1)
    traces = "https://traces.example/{trace_id}"
    options = (
        f"--edge-keys-file={keys.keys}",
        f"--edge-keys-pepper-file={keys.pepper}",
        f"--edge-console-trace-url={traces}",
    )
    url = f"http://127.0.0.1:{port}"
    async with another_edge(console_system, port, *options), tab_in(context, url) as here:
        await here.open()
        await here.page.get_by_label("API key").fill(wrong)
        await here.button("Continue").click()
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {wrong}"}) as session:
            refused = await Http(session, url).get("/v1/models")
        assert (refused.status, refused.error["code"]) == (401, "invalid_api_key")
        alert = here.page.get_by_role("alert")
        for told in (refused.error["message"], refused.error["code"], "req_"):
            await expect(alert).to_contain_text(told)
        await here.page.get_by_label("API key").fill(good)
        await here.button("Continue").click()
        response_id = await here.ask("Am I in?")
        kept = await here.page.evaluate("[{...sessionStorage}, {...localStorage}, document.cookie]")
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {good}"}) as session:
            assert (await Http(session, url).get(f"/v1/responses/{response_id}")).json["model"] == MODEL
        assert kept[0]["antiphon.key"] == good
        assert good not in str(kept[1:])
        assert not [address for address in here.addresses if good in address or wrong in address]
        await here.go(f"#/response/{response_id}")
        link = await here.page.get_by_role("link", name="Trace").get_attribute("href")
        assert re.fullmatch(traces.replace("{trace_id}", "[0-9a-f]{32}"), link or "")
        await here.button("Sign out").click()
        await expect(here.page.get_by_label("API key")).to_be_visible()
        assert await here.page.evaluate("sessionStorage.length") == 0
        assert here.faults == []


# The next change to the chat leads to another view, before the chat is drawn, which would close the open tree.
FROM_CHAT_TO = """route => addEventListener("hashchange", () => {
  if (location.hash === "#/chat") location.hash = route;
})"""


async def test_deleting_a_response_keeps_its_continuation(console: ConsoleTab, api: Http) -> None:
    async def accept(dialog: Dialog) -> None:
        await dialog.accept()

    console.page.on("dialog", accept)
    await console.open()
    first = await console.ask("One")
    second = await console.ask("Two")
    await console.go(f"#/response/{first}")
    await console.page.evaluate(FROM_CHAT_TO, f"#/tree/{second}")
    await console.button("Delete").click()
    items = console.page.get_by_role("treeitem")
    await expect(items.first).to_have_accessible_name("Deleted …" + first[-6:])
    await console.page.reload()
    await expect(items).to_have_count(2)
    await expect(items.first).to_have_accessible_name("Deleted …" + first[-6:])
    assert (await api.get(f"/v1/responses/{first}")).status == 404


async def test_a_conversation_without_its_first_response_stays_among_the_recent_ones(
    console: ConsoleTab, api: Http
) -> None:
    await console.open()
    first = await console.ask("One")
    await console.ask("Two")
    await api.ask("DELETE", f"/v1/responses/{first}")
    async with console.page.expect_response(re.compile(rf"/{first}$")):
        await console.page.reload()
    await expect(console.turns.last.locator(".answered")).to_contain_text("You said: Two")
    await expect(console.page.get_by_role("region", name="This tab").get_by_role("link")).to_have_count(1)


async def test_an_unstored_answer_keeps_its_conversation_on_the_screen(console: ConsoleTab) -> None:
    await console.open()
    await console.ask("One")
    await console.page.get_by_label("Store").uncheck()
    await console.write("Two")
    await console.ended_turn(1)
    await expect(console.turns).to_have_count(2)


async def test_the_tree_is_shown_again_after_a_step_back_from_a_new_conversation(console: ConsoleTab) -> None:
    await console.open()
    response_id = await console.ask("One")
    await console.go(f"#/tree/{response_id}")
    await expect(console.page.get_by_role("treeitem")).to_have_count(1)
    await console.page.get_by_role("button", name="New conversation").click()
    await expect(console.page.get_by_role("heading", name="Ask something")).to_be_visible()
    await console.page.go_back()
    await expect(console.page.get_by_role("treeitem")).to_have_count(1)


# A step back from a new conversation before its view is drawn: the application never sees the route of the chat.
UNSEEN_CHAT = """addEventListener("hashchange", (event) => {
  if (location.hash === "#/chat") event.stopImmediatePropagation();
});"""


@pytest.mark.parametrize(("view", "shown"), [("tree", "[role=treeitem]"), ("chat", "article.turn")])
async def test_a_view_is_shown_again_after_a_step_back_before_the_new_conversation_is_drawn(
    console: ConsoleTab, view: str, shown: str
) -> None:
    await console.open()
    response_id = await console.ask("One")
    await console.page.add_init_script(UNSEEN_CHAT)
    await console.open(f"#/{view}/{response_id}")
    await console.page.reload()
    await expect(console.page.locator(shown)).to_have_count(1)
    await console.page.get_by_role("button", name="New conversation").click()
    await expect(console.page.locator(shown)).to_have_count(0)
    await console.page.go_back()
    await expect(console.page.locator(shown)).to_have_count(1)


async def test_an_event_can_be_chosen_after_a_replay(console: ConsoleTab) -> None:
    await console.open()
    response_id = await console.ask("One")
    await console.go(f"#/response/{response_id}")
    await console.page.get_by_role("tab", name="Events").click()
    await console.button("Replay").click()
    await expect(console.page.locator(".replayed")).to_contain_text("You said: One")
    await expect(console.button("Replay")).to_be_visible()
    await console.page.get_by_role("option").first.click()
    await expect(console.page.locator(".events pre")).to_contain_text('"response.created"')


WITHOUT_LONG_TIMERS = """const later = setTimeout;
window.setTimeout = (act, milliseconds, ...rest) => (milliseconds > 1000 ? 0 : later(act, milliseconds, ...rest));"""


async def test_code_is_copied_where_the_browser_offers_no_clipboard(console: ConsoleTab) -> None:
    """Browsers offer it only on https and on localhost. The confirmation stays until the test has seen it."""
    await console.page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    await console.page.add_init_script(WITHOUT_LONG_TIMERS)
    await console.open()
    await console.page.get_by_role("button", name="Copy as code").click()
    await console.page.get_by_role("dialog").get_by_role("button", name="Copy", exact=True).click()
    await expect(console.button("Copied")).to_be_visible()


async def test_a_rejected_request_can_be_corrected(console: ConsoleTab, api: Http) -> None:
    await console.open()
    await console.page.get_by_label("Tools").fill('[{"type": "functionz", "name": "x"}]')
    await console.write("Hello")
    refused = await api.create(model=MODEL, input="Hello", tools=[{"type": "functionz", "name": "x"}])
    await expect(console.page.get_by_role("alert")).to_have_count(2)
    for alert in await console.page.get_by_role("alert").all():
        await expect(alert).to_contain_text(refused.error["message"])
    await console.page.get_by_label("Tools").fill("")
    await console.button("Send").click()
    response_id = await console.ended_turn(0)
    assert text_of((await api.get(f"/v1/responses/{response_id}")).json) == "You said: Hello"


async def test_a_branch_is_exported_as_json_lines_and_markdown(console: ConsoleTab, api: Http) -> None:
    await console.open()
    ids = [await console.ask(text) for text in ("One", "Two")]
    saved = []
    for form in ("Branch as JSON lines", "Branch as Markdown"):
        await console.page.get_by_text("Export").click()
        async with console.page.expect_download() as download:
            await console.button(form).click()
        saved.append(await asyncio.to_thread((await (await download.value).path()).read_text, "utf-8"))
    lines = [loads(line) for line in saved[0].splitlines()]
    assert [line["id"] for line in lines] == ids
    assert lines[1]["output"] == (await api.get(f"/v1/responses/{ids[1]}")).json["output"]
    assert re.findall(r"^## (\w+)$", saved[1], re.MULTILINE) == ["user", "assistant"] * 2


async def test_the_console_works_below_a_path_prefix(
    context: BrowserContext, console_system: System, api: Http
) -> None:
    async with below_prefix(console_system.url, "/tools/antiphon") as url, tab_in(context, url) as here:
        await here.page.goto(f"{url}/console/")
        await expect(here.page).to_have_url(f"{url}/console")
        response_id = await here.ask("Where am I?")
        assert text_of((await api.get(f"/v1/responses/{response_id}")).json) == "You said: Where am I?"
        assert here.faults == []
