"""Takes the pictures of docs/howto/console.md from a running console in Chromium: `make screenshots`.

A scripted model answers, so that the pictures always show the same conversation. Everything else is real: `antiphon
up`, the page that it serves, and the browser.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import aiohttp
from playwright.async_api import Browser, expect

from tests.support.console.chat_model import MODEL, ChatModel, chat_model, write_profile
from tests.support.console.chromium import running_browser
from tests.support.console.console_tab import ConsoleTab, console_tab
from tests.support.http import Http
from tests.support.system import up

FOLDER = Path(__file__).parents[3] / "docs/images/console"
SCALE = 1.5
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")

FIRST = "Two choirs face each other. Who sings first?"
ECHO = "How long should the echo be?"
PIECES = "Which pieces should we try?"
PLAN = "Write a rehearsal plan for one evening."
ANSWERS = {
    FIRST: [
        "In **antiphony** the choir by the organ usually begins: its singers hear the pitch best.\n\n"
        "The second choir answers, and three things decide whether it works:\n\n"
        "1. **Distance.** Every 34 metres cost a tenth of a second.\n"
        "2. **Sight.** Both conductors must see each other.\n"
        "3. **Breath.** The answer begins on the last vowel of the call, not behind it.",
    ],
    ECHO: [
        "Short. In a nave of 40 metres leave one beat at 80 beats a minute; longer, and the call is forgotten.",
        "Long enough to hear the room. In a nave of 40 metres leave two beats at 80 beats a minute.",
        "As long as a breath. Count the reverberation of the nave, and begin when half of it is gone.",
    ],
    PIECES: [
        "| piece | composer | choirs |\n|---|---|---|\n| *In ecclesiis* | Gabrieli | 3 |\n"
        "| *Jauchzet dem Herrn* | Schütz | 2 |\n| *Spem in alium* | Tallis | 8 |\n\n"
        "Begin with Schütz: its calls are short, and the answers overlap by one chord only.",
    ],
    PLAN: [
        "Warm up together, then apart. Sing the calls alone, then the answers alone; put them together only when both "
        "breathe at the same place.",
        "Begin apart: each choir learns its own half in its own room. Meet in the nave for the last hour.",
    ],
    "Only the last hour, please.": [
        "**19:00** calls · **19:15** answers · **19:30** both, slowly · **19:50** once, without a stop."
    ],
    "Who gives the cue?": ["The conductor whose choir is silent: that is the one who can listen."],
    "Can three choirs do it?": ["Yes. The third one answers the answer, so it may be the smallest."],
}

WAITING = "The organ builder listens to each pipe twice, and turns the slider by less than the width of a hair."


@dataclass
class Conversation:
    """The ids of the responses in the pictures."""

    leaf: str
    echoes: list[str]
    background: list[str]


async def _make(api: Http, model: ChatModel) -> Conversation:
    async def say(text: str, after: str | None = None, **members: object) -> str:
        previous = {} if after is None else {"previous_response_id": after}
        return str((await api.create(model=MODEL, input=text, **previous, **members)).json["id"])

    root = await say(FIRST)
    echoes = [await say(ECHO, root, temperature=temperature) for temperature in (0.2, 0.7, 1.0)]
    pieces = await say(PIECES, root)
    plan = await say(PLAN, echoes[0])
    other_plan = await say(PLAN, echoes[0], temperature=1.2)
    leaf = await say("Only the last hour, please.", plan)
    await say(PLAN, echoes[2], max_output_tokens=9)
    last = await say("Can three choirs do it?", pieces)
    for number in range(12):
        last = await say(f"Verse {number + 1}.", last)
    await say("Who gives the cue?", last)
    done = await say("Who gives the cue?", echoes[1], background=True)
    while (await api.get(f"/v1/responses/{done}")).json["status"] != "completed":
        await asyncio.sleep(0.1)
    model.close_gate()
    running = await say("Wait for the organ to be tuned.", done, background=True)
    stopped = await say("Wait for the second choir.", other_plan, background=True)
    await asyncio.sleep(1)  # until a few words are written, which the picture shows
    await api.post(f"/v1/responses/{stopped}/cancel", {})
    return Conversation(leaf, echoes, [done, stopped, running])


async def _take(browser: Browser, url: str, made: Conversation) -> None:
    for scheme in SCHEMES:
        async with console_tab(browser, url, color_scheme=scheme, device_scale_factor=SCALE) as here:
            await _tree(here, made, scheme)
            if scheme == "light":
                await _compare(here, made)
                await _live(here, made)
            assert here.faults == []
    async with console_tab(browser, url, color_scheme="light", device_scale_factor=SCALE) as here:
        await _playground(here, made)
        await _response(here)
        assert here.faults == []


async def _save(here: ConsoleTab, name: str, scheme: Scheme = "light") -> None:
    await expect(here.page.get_by_text("Loading…")).to_have_count(0)
    await here.page.evaluate("document.fonts.ready")
    await here.page.wait_for_timeout(400)  # the cards of the tree load their texts a moment after they are drawn
    await here.page.screenshot(path=FOLDER / f"{name}-{scheme}.png", animations="disabled", caret="hide")


async def _tree(here: ConsoleTab, made: Conversation, scheme: Scheme) -> None:
    await here.page.set_viewport_size({"width": 1520, "height": 640})
    await here.open(f"#/tree/{made.leaf}")
    await here.page.get_by_role("treeitem").first.wait_for()
    await here.page.get_by_role("button", name="Fit").click()
    await _save(here, "tree", scheme)
    await here.page.set_viewport_size({"width": 1360, "height": 860})


async def _compare(here: ConsoleTab, made: Conversation) -> None:
    await here.page.set_viewport_size({"width": 1360, "height": 420})
    await here.go(f"#/compare/{made.echoes[0]}/{made.echoes[1]}")
    await here.page.locator(".sides").wait_for()
    await _save(here, "compare")


async def _live(here: ConsoleTab, made: Conversation) -> None:
    await here.page.set_viewport_size({"width": 1360, "height": 560})
    for response_id in made.background:
        await here.go(f"#/live/{response_id}")
        await here.page.locator(f"[data-id={response_id}] .status").wait_for()
    await expect(here.page.locator(f"[data-id={made.background[-1]}] .pulse")).to_be_visible()
    await _save(here, "live")


async def _playground(here: ConsoleTab, made: Conversation) -> None:
    await here.open(f"#/chat/{made.echoes[1]}")
    await expect(here.turns).to_have_count(2)
    await here.page.get_by_label("Instructions").fill("Answer as a choirmaster would: briefly.")
    await here.page.get_by_label("Temperature").fill("0.2")
    await here.ask("Can three choirs do it?")
    await _save(here, "playground")


async def _response(here: ConsoleTab) -> None:
    await here.button("New conversation").click()
    await expect(here.turns).to_have_count(0)
    response_id = await here.ask(PLAN)
    await here.go(f"#/response/{response_id}")
    await here.page.get_by_role("tab", name="Events").click()
    await here.page.locator(".event").nth(4).click()
    await _save(here, "events")
    await here.page.set_viewport_size({"width": 1360, "height": 600})
    await here.page.get_by_role("tab", name="Usage and timing").click()
    await _save(here, "usage")


async def take() -> None:
    """Takes all pictures, and the tree also in dark mode."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ExitStack() as running:
        data = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="screenshots-")))
        model = running.enter_context(chat_model())
        model.answers = ANSWERS
        model.waiting_words = WAITING.split()
        profiles = write_profile(data / "profiles", model)
        system = running.enter_context(up(data / "data", "--profiles", str(profiles)))
        async with aiohttp.ClientSession() as session, running_browser() as browser:
            made = await _make(Http(session, system.url), model)
            model.pause_s = 0.02
            await _take(browser, system.url, made)
        model.open_gate()


if __name__ == "__main__":
    asyncio.run(take())
