"""Debian's Chromium, driven by Playwright. One browser serves all tests of a process."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

from tests.support.debian import found_or_installed

FONTS = ("fonts-inter", "fonts-jetbrains-mono")
"""The fonts that the console prefers, used in pictures for the documents."""


def chromium() -> str:
    """Returns the path of Chromium, after installing it if necessary. RuntimeError: Chromium cannot be installed."""
    return found_or_installed(lambda: shutil.which("chromium"), "chromium", *FONTS)


ARGUMENTS = ("--no-sandbox", "--process-per-site")


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    # Tests run as root in containers, where Chromium has no sandbox. They load only the console. Tabs of one context
    # share a process, which keeps the compiled code of the console.
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()
