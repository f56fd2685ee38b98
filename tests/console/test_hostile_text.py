"""Hostile texts of users and models must execute nothing, even in a browser that ignores the page's policy."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Dialog, expect

from antiphon_core.jsons import dumps
from tests.support.console.chat_model import MODEL, ChatModel
from tests.support.console.console_tab import ConsoleTab, console_tab
from tests.support.console.payloads import HIT, PAYLOADS
from tests.support.http import Http
from tests.support.system import System

pytestmark = pytest.mark.asyncio(loop_scope="session")

COUNT_HITS = f"window.{HIT} = () => {{ window.hits = (window.hits ?? 0) + 1; }}; window.alert = window.{HIT};"


async def make_turns(api: Http) -> list[str]:
    """Creates a turn for each payload, with the payload as prompt, instructions, metadata, tool output and answer."""
    ids: list[str] = []
    for payload in PAYLOADS:
        previous = {"previous_response_id": ids[-1]} if ids else {}
        call = {"type": "function_call", "call_id": "call_x", "name": "f", "arguments": dumps({"x": payload}).decode()}
        output = {"type": "function_call_output", "call_id": "call_x", "output": payload}
        made = await api.create(
            model=MODEL,
            instructions=payload,
            input=[call, output, {"role": "user", "content": payload}],
            metadata={payload[:64]: payload[:512]},
            **previous,
        )
        assert made.status == 200, made.body
        ids.append(made.json["id"])
    return ids


async def test_hostile_payloads_in_responses_execute_nothing(
    browser: Browser, console_system: System, api: Http
) -> None:
    assert len(set(PAYLOADS)) >= 50
    ids = await make_turns(api)
    async with console_tab(browser, console_system.url, bypass_csp=True) as here:
        dialogs: list[Dialog] = []
        here.page.on("dialog", lambda dialog: dialogs.append(dialog))  # noqa: PLW0108 - it has to be a function
        await here.page.add_init_script(COUNT_HITS)
        await here.open(f"#/chat/{ids[-1]}")
        await here.page.get_by_role("button", name="earlier").click()
        await expect(here.turns).to_have_count(len(PAYLOADS))
        await expect(here.page.get_by_text("Loading…")).to_have_count(0)
        for payload, turn in zip(PAYLOADS, await here.turns.all(), strict=True):
            shown = await turn.locator(".asked .plain").text_content()
            assert (shown or "").strip() == payload.strip()
        await require_nothing_executed(here)
        await open_all_views(here, ids)
        assert not dialogs
        assert here.faults == []


async def open_all_views(here: ConsoleTab, ids: list[str]) -> None:
    """Opens every view that shows payloads."""
    await here.go(f"#/tree/{ids[-1]}")
    await here.page.get_by_role("treeitem").first.wait_for()
    await here.page.get_by_role("tree").press("Home")
    await here.go(f"#/compare/{ids[0]}/{ids[1]}")
    await here.page.locator(".sides").wait_for()
    await require_nothing_executed(here)
    for response_id in ids[::7]:
        await here.go(f"#/response/{response_id}")
        for tab in ("Items", "Request", "Events"):
            await here.page.get_by_role("tab", name=tab).click()
        await here.page.locator(".event").first.wait_for()
        await here.button("Replay").click()
        await require_nothing_executed(here)


async def require_nothing_executed(here: ConsoleTab) -> None:
    """Requires that no payload has run, and that none became an active element, an attribute or an unsafe link."""
    assert await here.page.evaluate("window.hits ?? 0") == 0
    strange = (
        "main :is(script, iframe, object, embed, base, form[action], link, meta, style, math, audio, video, marquee)"
    )
    assert await here.page.locator(strange).count() == 0
    assert (
        await here.page.evaluate(
            """() => [...document.querySelectorAll("main *")].flatMap((element) => [...element.attributes])
            .filter(({ name, value }) => name.startsWith("on") || /^\\s*(javascript|vbscript|data:text)/i.test(value))
            .length"""
        )
        == 0
    )
    links = await here.page.evaluate(
        """() => [...document.querySelectorAll(".prose a")].map(({ href, rel }) => [href, rel])"""
    )
    assert all(href.startswith(("http://", "https://", "mailto:")) and "noopener" in rel for href, rel in links)


async def test_hostile_payloads_typed_by_the_user_execute_nothing(console: ConsoleTab, model: ChatModel) -> None:
    """Types payloads into the console, under its own policy."""
    await console.page.add_init_script(COUNT_HITS)
    await console.open()
    for payload in PAYLOADS[:10]:
        await console.page.get_by_label("Instructions").fill(payload)
        await console.page.get_by_label("Tools").fill(payload)
        await console.page.locator("input[type=file]").set_input_files(
            {"name": payload.replace("/", "_")[:60], "mimeType": "image/svg+xml", "buffer": payload.encode()}
        )
        await console.button("Copy as code").click()
        await console.page.get_by_role("tab", name="Python").click()
        await console.page.get_by_role("dialog").get_by_label("Close").click()
    assert await console.page.evaluate("window.hits ?? 0") == 0
