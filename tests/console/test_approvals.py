"""The queue of calls that wait for an approval: a person reads the arguments, denies one call and approves another."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.support.console.console_tab import console_tab
from tests.support.in_process import running
from tests.support.served_models import model
from tests.support.server_tools import server
from tests.support.tool_turns import FakeTools, RoundsEngine, call

pytestmark = pytest.mark.asyncio(loop_scope="session")

DECLARED = server(require_approval="always")


async def test_person_denies_one_call_and_approves_another(browser: Browser) -> None:
    tools, engine = FakeTools(), RoundsEngine(call("shop__buy", '{"who":"<b>alice</b>"}'), "Done.")
    async with (
        running((model(), engine), tools=tools, console=True) as system,
        console_tab(browser, system.url) as console,
    ):
        page = console.page
        first = await system.create(tools=[DECLARED])
        engine.requests.clear()
        second = await system.create(tools=[DECLARED])
        await console.open()
        await page.get_by_role("link", name="Approvals").click()
        rows = page.locator(".run-row")
        await expect(rows).to_have_count(2)
        denied = page.locator(f"[data-id={first['output'][-1]['id']}]")
        await expect(denied).to_contain_text('"who": "<b>alice</b>"')
        await denied.get_by_label("Reason").fill("Too dear.")
        await denied.get_by_role("button", name="Deny").click()
        await expect(page.locator("main")).to_contain_text("Done.")
        assert tools.calls == []
        assert "Too dear." in str(engine.requests[-1].prompt.messages)  # type: ignore[union-attr]

        await page.get_by_role("link", name="Approvals").click()
        await expect(rows).to_have_count(1)
        approved = page.locator(f"[data-id={second['output'][-1]['id']}]")
        await approved.get_by_role("button", name="Approve").click()
        await expect(page.locator("main")).to_contain_text("Done.")
        assert [each.arguments for each in tools.calls] == [b'{"who":"<b>alice</b>"}']
        await page.get_by_role("link", name="Approvals").click()
        await expect(page.get_by_text("Nothing waits")).to_be_visible()
        assert console.faults == []
