"""Turns at the end of long chains: each continues the response before it by `previous_response_id`.

At each depth some siblings continue the same response with different texts, so that no whole prompt is repeated.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2.sandbox import ImmutableSandboxedEnvironment

from antiphon_core.jsons import Object, loads
from benchmarks.gateway.bench import Bench
from benchmarks.gateway.http_client import Connection, Reply, connect
from benchmarks.gateway.load import outcome_of
from benchmarks.gateway.processes import measured
from benchmarks.gateway.requests import get, marker_of, turn
from benchmarks.gateway.rows import DEPTHS, IDS_DEPTHS
from benchmarks.gateway.subjects import Column, Route, Subject
from benchmarks.gateway.texts import STORY, sentence

TOKENS = 16
SIBLINGS = 15
RENDERED_DEPTH = 300
_RESPONSE_ID = re.compile(rb'"response":\s*\{\s*"id":\s*"([^"]+)"')


class TurnFailed(Exception):
    """A turn of a chain failed."""


@dataclass(frozen=True, slots=True)
class AtDepth:
    """The time of a turn at one depth."""

    wall_ms: float
    cpu_ms: float


@dataclass(slots=True)
class Chain:
    """A chain that grows turn by turn."""

    subject: Subject
    route: Route
    connection: Connection
    head: str | None = None
    depth: int = 0
    said: int = 0

    async def turn(self) -> tuple[str, float]:
        """Continues the head. Returns the new response's id, and the seconds that the turn took. TurnFailed: the turn
        failed."""
        self.said += 1
        request = turn(self.subject, self.route, TOKENS, text=sentence(self.said), previous=self.head)
        reply = await self.connection.ask(request)
        outcome = outcome_of(reply, TOKENS)
        if outcome.error:
            raise TurnFailed(f"depth {self.depth + 1}: {outcome.error}")
        return _response_id(reply), outcome.total_s

    async def grow(self, depth: int, *, until_s: float) -> bool:
        """Grows the chain to a depth, unless that takes too long."""
        while self.depth < depth:
            if time.monotonic() > until_s:
                return False
            self.head, _ = await self.turn()
            self.depth += 1
        return True

    async def measure(self) -> AtDepth:
        """Measures siblings that continue the head: the fastest of them, and their mean processor time."""
        async with measured(self.subject.parts) as usage:
            walls_s = [(await self.turn())[1] for _ in range(SIBLINGS)]
        return AtDepth(min(walls_s) * 1e3, usage.total_cpu_s / SIBLINGS * 1e3)


async def chat(bench: Bench) -> None:
    for subject in bench.gateways():
        await _longest_messages(bench.engines.chat)  # resets the maximum
        for depth, found in (await _measured(bench, subject, Route.CHAT, DEPTHS)).items():
            bench.board.put(f"depth-{depth}", subject.column, found.wall_ms)
        bench.board.put("depth-messages", subject.column, await _longest_messages(bench.engines.chat))


async def ids(bench: Bench) -> None:
    bench.board.put("ids-depth-cpu", Column.ENGINE, plain_render_ms(bench.engines.model_directory))
    for subject in bench.antiphons():
        for depth, found in (await _measured(bench, subject, Route.IDS, IDS_DEPTHS)).items():
            bench.board.put(f"ids-depth-{depth}", subject.column, found.wall_ms)
            if depth == RENDERED_DEPTH:
                bench.board.put("ids-depth-cpu", subject.column, found.cpu_ms)


async def _measured(bench: Bench, subject: Subject, route: Route, depths: Sequence[int]) -> dict[int, AtDepth]:
    """Returns the measurements by depth, up to the depth that the chain reaches."""
    found: dict[int, AtDepth] = {}
    chain = Chain(subject, route, await connect(subject.host, subject.port, marker_of(subject)))
    until = time.monotonic() + bench.chain_limit_s
    try:
        for _ in range(3):
            await chain.turn()
        for depth in depths:
            if not await chain.grow(depth - 1, until_s=until):
                reached = f"{subject.column}: the {route} chain came to depth {chain.depth} in {bench.chain_limit_s} s"
                bench.board.problems.append(reached)
                break
            found[depth] = await chain.measure()
    except TurnFailed as error:
        bench.board.problems.append(f"{subject.column}: {' '.join(str(error).split())}")
    finally:
        chain.connection.transport.close()
    return found


def _response_id(reply: Reply) -> str:
    found = _RESPONSE_ID.search(reply.data)
    if found is None:
        raise TurnFailed("the stream names no response")
    return found[1].decode()


async def _longest_messages(engine: Subject) -> int:
    connection = await connect(engine.host, engine.port, b" ")
    reply = await connection.ask(get(engine, "/stats"))
    connection.transport.close()
    return int(loads(reply.body)["longest_messages"])


def plain_render_ms(model_directory: Path) -> float:
    """Measures one plain Jinja render of the messages at depth 300, in the sandbox that Hugging Face uses.

    The baseline uses no code of Antiphon, so changes of Antiphon do not move it.
    """
    source = (model_directory / "chat_template.jinja").read_text("utf-8")
    template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(source)
    messages: list[Object] = []
    for number in range(1, RENDERED_DEPTH + 1):
        messages.append({"role": "user", "content": sentence(number)})
        messages.append({"role": "assistant", "content": STORY[: TOKENS * 5]})
    best = float("inf")
    for _ in range(20):
        begun = time.process_time()
        template.render(messages=messages[:-1], add_generation_prompt=True)
        best = min(best, time.process_time() - begun)
    return best * 1e3
