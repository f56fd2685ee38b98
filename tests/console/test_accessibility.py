"""Checks every view of the console with axe-core, light and dark, and the use of the console by keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, Page, expect

from tests.support.console.chat_model import ChatModel
from tests.support.console.console_tab import ConsoleTab, console_tab
from tests.support.system import System

pytestmark = pytest.mark.asyncio(loop_scope="session")

AXE = Path(__file__).parents[2] / "node_modules/axe-core/axe.min.js"


async def serious(page: Page) -> list[str]:
    """Serious and critical violations that axe-core finds, by rule and element."""
    await page.evaluate(AXE.read_text("utf-8"))
    found: list[dict[str, Any]] = (await page.evaluate("axe.run(document, { resultTypes: ['violations'] })"))[
        "violations"
    ]
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_view_has_a_serious_accessibility_violation(
    browser: Browser, console_system: System, model: ChatModel, scheme: Literal["light", "dark"]
) -> None:
    model.answers = {"A text": ["# A heading\n\n- a list\n\n`code` and [a link](https://a.example)\n\n```\ncode\n```"]}
    async with console_tab(browser, console_system.url, color_scheme=scheme, reduced_motion="reduce") as here:
        found: dict[str, list[str]] = {}
        await here.open()
        found["empty"] = await serious(here.page)
        first = await here.ask("A text")
        await here.ask("Another")
        await here.page.get_by_label("Tools").fill("[{")
        await here.page.get_by_role("alert").wait_for()
        found["playground"] = await serious(here.page)
        await here.page.get_by_label("Tools").fill("")
        await here.button("Copy as code").click()
        await here.page.get_by_role("dialog").wait_for()
        found["code"] = await serious(here.page)
        await here.page.get_by_role("dialog").get_by_label("Close").click()
        await here.page.get_by_label("In the background").check()
        other = await here.ask("In the background")
        for name, route in {
            "tree": f"#/tree/{other}",
            "live": "#/live",
            "approvals": "#/approvals",
            "compare": f"#/compare/{first}/{other}",
        }.items():
            await here.go(route)
            await expect(here.page.locator("h1")).to_have_text(name.capitalize())
            await expect(here.page.get_by_text("Loading…")).to_have_count(0)
            found[name] = await serious(here.page)
        await here.go(f"#/response/{first}")
        for tab in ("Items", "Request", "Usage and timing", "Events"):
            await here.page.get_by_role("tab", name=tab).click()
            await here.page.get_by_role("tab", name=tab, selected=True).wait_for()
            if tab == "Events":
                await here.page.get_by_role("option").first.wait_for()
            found[tab] = await serious(here.page)
        assert {view: faults for view, faults in found.items() if faults} == {}


async def test_chatting_forking_and_searching_work_by_keyboard_alone(console: ConsoleTab) -> None:
    page, press = console.page, console.page.keyboard.press
    await console.open()
    for text in ("First", "Second"):
        await expect(page.get_by_label("Message", exact=True)).to_be_focused()
        await page.keyboard.type(text)
        await press("Enter")
        await console.ended_turn(["First", "Second"].index(text))
    second = console.shown_id
    await console.go(f"#/tree/{second}")
    tree = page.get_by_role("tree", name="Conversation tree")
    await expect(console.selected).to_have_accessible_name("Completed Second You said: Second")
    await tree.focus()
    await press("ArrowUp")
    await expect(console.selected).to_have_accessible_name("Completed First You said: First")
    await press("f")
    await expect(console.turns).to_have_count(1)
    await expect(page.get_by_label("Message", exact=True)).to_be_focused()
    await page.keyboard.type("Third")
    await press("Enter")
    await expect(console.turns.nth(1).locator(".branches")).to_contain_text("2 / 2")
    await console.go(f"#/tree/{second}")
    await tree.focus()
    await press("/")
    await page.keyboard.type(second)
    await press("Enter")
    await expect(console.selected).to_have_accessible_name("Completed Second You said: Second")
