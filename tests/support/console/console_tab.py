"""A browser tab with the console, and the actions of a user there."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from tests.support.waiting import WAIT_MAX_S

TIMEOUT_MS = WAIT_MAX_S * 1000
_RESPONSE = re.compile(r"resp_\w+")
_GO = """async (route) => {
  if (location.hash === route) return;
  const changed = new Promise((done) => addEventListener("hashchange", done, { once: true }));
  location.hash = route;
  await changed;
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))));
}"""


@dataclass
class ConsoleTab:
    """One tab of the browser."""

    page: Page
    url: str
    faults: list[str] = field(default_factory=list)
    """Errors of the page, violations of its policy, and requests to other servers."""
    addresses: list[str] = field(default_factory=list)
    """The addresses of all requests."""

    async def open(self, route: str = "#/chat") -> None:
        await self.page.goto(f"{self.url}/console{route}")
        await self.page.locator("main").wait_for()

    async def go(self, route: str) -> None:
        """Follows a route. Returns when its view is drawn and has begun to load."""
        await self.page.evaluate(_GO, route)

    async def write(self, text: str) -> None:
        await self.page.get_by_label("Message", exact=True).fill(text)
        await self.page.get_by_role("button", name="Send", exact=True).click()

    async def ask(self, text: str) -> str:
        """Sends a message and waits for the whole answer. Returns the id of the response."""
        count = await self.turns.count()
        await self.write(text)
        await expect(self.turns).to_have_count(count + 1)
        return await self.ended_turn(count)

    async def ended_turn(self, index: int, status: str = "Completed") -> str:
        """Waits until a turn has this status. Returns its id."""
        turn = self.turns.nth(index)
        await expect(turn.locator("footer .status")).to_have_text(status)
        return await turn.get_attribute("data-id") or ""

    @property
    def turns(self) -> Locator:
        return self.page.locator("article.turn[data-id]")

    @property
    def shown_id(self) -> str:
        """The id of the response in the page's address."""
        found = _RESPONSE.search(self.page.url)
        return found[0] if found else ""

    @property
    def selected(self) -> Locator:
        """The selected response in the tree."""
        return self.page.get_by_role("treeitem", selected=True)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)


@asynccontextmanager
async def console_tab(browser: Browser, url: str, **options: Any) -> AsyncIterator[ConsoleTab]:
    """Opens a tab in a browser context of its own, which shares nothing with others. `options` are the context's."""
    async with console_context(browser, **options) as context, tab_in(context, url) as here:
        yield here


@asynccontextmanager
async def console_context(browser: Browser, **options: Any) -> AsyncIterator[BrowserContext]:
    context = await browser.new_context(viewport={"width": 1360, "height": 860}, **options)
    context.set_default_timeout(TIMEOUT_MS)
    expect.set_options(timeout=TIMEOUT_MS)
    try:
        yield context
    finally:
        await context.close()


@asynccontextmanager
async def tab_in(context: BrowserContext, url: str) -> AsyncIterator[ConsoleTab]:
    """Opens a tab in a browser context for the console of an edge. The next tab finds only the cached files."""
    page = await context.new_page()
    here = ConsoleTab(page, url)
    page.on("pageerror", lambda error: here.faults.append(str(error)))
    page.on("console", lambda said: here.faults.append(said.text) if "Content Security Policy" in said.text else None)
    page.on("request", lambda request: _note(here, request.url))
    try:
        yield here
    finally:
        await context.clear_cookies()
        if page.url.startswith(url):
            await page.evaluate("localStorage.clear()")
        await page.close()


def _note(here: ConsoleTab, address: str) -> None:
    here.addresses.append(address)
    if not address.startswith((here.url, "data:", "blob:")):
        here.faults.append(f"asked {address}")
