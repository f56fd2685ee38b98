"""Fixtures for the console: `antiphon up` with a model that answers by rules, and one browser."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext

from tests.support.console.chat_model import ChatModel, chat_model, write_profile
from tests.support.console.chromium import running_browser
from tests.support.console.console_tab import ConsoleTab, console_context, tab_in
from tests.support.http import Http
from tests.support.system import System, up


@pytest.fixture(scope="session")
def model() -> Iterator[ChatModel]:
    with chat_model() as running:
        yield running


@pytest.fixture(scope="session")
def console_system(model: ChatModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    folder = tmp_path_factory.mktemp("console")
    profiles = write_profile(folder / "profiles", model)
    with up(folder / "data", "--profiles", str(profiles)) as system:
        yield system


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def context(browser: Browser, console_system: System) -> AsyncIterator[BrowserContext]:
    """The context of all tabs but those of a second user or with other settings. A page that stays open keeps the
    process of the tabs: a new one loads and compiles the console, which takes a second of CPU time."""
    async with console_context(browser) as made:
        await (await made.new_page()).goto(f"{console_system.url}/console/app/strings.js")
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def api(console_system: System) -> AsyncIterator[Http]:
    """A client of the API beside the console."""
    async with aiohttp.ClientSession() as session:
        yield Http(session, console_system.url)


@pytest_asyncio.fixture(loop_scope="session")
async def console(context: BrowserContext, console_system: System) -> AsyncIterator[ConsoleTab]:
    """A tab with the console. The test fails if the page has faults."""
    async with tab_in(context, console_system.url) as here:
        yield here
        assert here.faults == []
