"""Turns leave nothing behind in a process but what its caches hold, whose sizes are settings."""

from __future__ import annotations

import asyncio
import gc
import heapq
import logging
import sys
from collections import Counter, deque
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.jsons import Object
from antiphon_edge.callers.authentication import TENANT_HEADER
from antiphon_translator.engines.scripted import ALL_CONTROLS, Emit, ScriptedEngine
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.prompt.prompt import PromptEncoder
from antiphon_translator.prompt.read_history import HistoryCache
from antiphon_translator.schemas import checked_schemas
from antiphon_translator.schemas.checked_schemas import CheckedSchemas
from antiphon_translator.templates.jinja import JinjaTemplate
from tests.support.http import Http
from tests.support.in_process import running
from tests.support.served_models import END_ID, FILES, model, tokenizer

TURNS = 70
"""More than the caches hold that are counted in items, such as the parameters of 64 requests."""
CACHE_BYTES = 16 * 2**10
ROUNDS = range(2, 9)
"""Full caches vary by some hundred blocks, whatever the number of rounds."""
BLOCKS_MAX = 200
"""Blocks of Python's allocator for each round. If each request leaves one object, a round leaves 560."""


def own_objects() -> Counter[str]:
    """The number of live objects of each of our classes."""
    collect_garbage()
    kinds = Counter(type(each) for each in gc.get_objects())
    return Counter({f"{kind.__module__}.{kind.__qualname__}": n for kind, n in kinds.items() if is_own(kind)})


def collect_garbage() -> None:
    """Collects garbage after the event loop has dropped its cancelled timers. The loop keeps up to a hundred of them,
    and each keeps the context of its turn."""
    loop: Any = asyncio.get_running_loop()
    loop._scheduled = [timer for timer in loop._scheduled if not timer.cancelled()]
    heapq.heapify(loop._scheduled)
    loop._timer_cancelled_count = 0
    gc.collect()


def is_own(kind: type) -> bool:
    return str(kind.__module__).startswith("antiphon")


def bodies(number: int, previous: str) -> list[Object]:
    """Requests that no earlier one resembles: in text, key, tools and schema; some of them fail."""
    asked: Object = {"model": "m", "input": f"hello {number}", "store": False, "prompt_cache_key": f"k{number}"}
    schema = {"type": "object", "properties": {f"p{number}": {"type": "string"}}}
    tool = {"type": "function", "name": f"f{number}", "parameters": schema}
    history = [{"role": role, "content": f"{role} {number}"} for role in ("user", "assistant", "user")]
    return [
        asked,
        asked | {"stream": True, "tools": [tool]},
        asked | {"text": {"format": {"type": "json_schema", "name": "s", "schema": schema}}},
        asked | {"input": history, "stream": True},
        asked | {"previous_response_id": previous, "store": True},
        asked | {"model": f"unknown {number}"},
        asked | {"input": [{"type": "unknown", "number": number}]},
    ]


def bounded_model() -> ServedModel:
    """SmolLM2 with small caches."""
    template = JinjaTemplate((FILES / "chat_template.jinja").read_text("utf-8"), special_tokens={})
    prompt = PromptEncoder(template, tokenizer(), cache_bytes=CACHE_BYTES)
    return model(prompt=prompt, histories=HistoryCache(CACHE_BYTES))


@pytest.fixture
def no_log() -> Iterator[None]:
    """Drops all lines of the log, which pytest keeps."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("no_log")
async def test_turns_leave_no_objects_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checked_schemas, "PROCESS", CheckedSchemas(items_max=8))
    engine = ScriptedEngine([Emit([*tokenizer().encode("Hi!"), END_ID])], controls=ALL_CONTROLS | {"guide"})
    engine.requests = deque(maxlen=1)  # type: ignore[assignment]
    numbers = count()
    options: Object = {
        "rows": f"sqlite:///{tmp_path}/store.db",
        "trusted_proxies": ("127.0.0.1/32",),
        "remembered_lineages_s": 0,  # up to 32 MiB, which is a bound of its own
    }
    async with running((bounded_model(), engine), workers=1, **options) as system:
        http = system.http

        async def run(turns: int) -> None:
            for _, number in zip(range(turns), numbers, strict=False):
                await run_one(http, number)

        await run(TURNS)
        before = own_objects()
        await run(TURNS)
        grown = own_objects() - before
        assert {name: n for name, n in grown.items() if n > TURNS // 10} == {}
        start = sys.getallocatedblocks()
        growths = []
        for rounds in ROUNDS:
            await run(TURNS)
            collect_garbage()
            growths.append(sys.getallocatedblocks() - start)
            if growths[-1] < rounds * BLOCKS_MAX:
                return
    raise AssertionError(f"allocated blocks rise with turns: {growths}")


async def run_one(http: Http, number: int) -> None:
    headers = {TENANT_HEADER: f"tenant-{number % 7}"}
    stored = await http.ask("POST", "/v1/responses", {"model": "m", "input": f"hi {number}"}, headers=headers)
    assert stored.status == 200, stored.body
    for body in bodies(number, stored.json["id"]):
        await http.ask("POST", "/v1/responses", body, headers=headers)
