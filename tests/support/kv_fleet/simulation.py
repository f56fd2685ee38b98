"""One run of a workload over a fleet with one way of routing, and its figures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random

from antiphon_core.errors import EngineUnavailable
from antiphon_translator.generation import EngineChunk, TokenChunk
from antiphon_translator.placement import PlacementHint, RootPrefix
from tests.support.kv_fleet import virtual_time, workload
from tests.support.kv_fleet.blocks import BLOCK_TOKENS, Chain
from tests.support.kv_fleet.replica import Replica, Work
from tests.support.kv_fleet.routers import FleetTurn, Router
from tests.support.kv_fleet.traces import TraceLine
from tests.support.kv_fleet.virtual_time import LoopClock
from tests.support.kv_fleet.workload import NextTurn, Script, Session

HINTS_MAX = 4
"""Hints of a turn: of the deepest ancestors at different replicas."""
RETRY_S = 1.0
FIRST_SESSIONS_S = 60.0
DOWN_S = 30.0
BETWEEN_STOPS_S = 60.0

MakeRouters = Callable[[Sequence[Replica]], Sequence[Router]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """The fleet and its load. With `stops_from_s` the replicas stop one after the other from then on. One-shot requests
    come between the conversations, and are not counted in their figures. `thinks` is the share of each output that
    is reasoning, which the template leaves out of the history when a person goes on; with `prewarms` the next prompt
    is read in advance then."""

    replicas: int = 8
    kv_tokens: int = 300_000
    sessions: int = 160
    at_once: int = 60
    seed: int = 1
    stops_from_s: float | None = None
    one_shots_per_s: float = 0.0
    thinks: float = 0.0
    prewarms: bool = False


@dataclass
class Result:
    """The figures of a run. `possible` is the hit rate of one cache without a limit."""

    turns: int = 0
    failed: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    uncached_tokens: int = 0
    possible_tokens: int = 0
    first_token_s: list[float] = field(default_factory=list)
    human_first_token_s: list[float] = field(default_factory=list)
    generations: list[int] = field(default_factory=list)
    prewarmed_tokens: int = 0
    """Tokens that were read in advance."""

    @property
    def hit(self) -> float:
        return self.cached_tokens / (self.cached_tokens + self.uncached_tokens)

    @property
    def possible(self) -> float:
        return self.possible_tokens / self.input_tokens

    @property
    def uncached_per_turn(self) -> float:
        return self.uncached_tokens / self.turns

    @property
    def imbalance(self) -> float:
        return max(self.generations) * len(self.generations) / sum(self.generations)

    def first_token_ms(self, share: float) -> float:
        return _quantile_ms(self.first_token_s, share)

    def human_first_token_ms(self, share: float) -> float:
        """Of the turns behind a person's pause."""
        return _quantile_ms(self.human_first_token_s, share)


def _quantile_ms(times_s: Sequence[float], share: float) -> float:
    ordered = sorted(times_s)
    return 1000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)]


@dataclass(frozen=True, slots=True)
class Line:
    """A branch behind one of its turns: the tokens so far, and the hints for a prompt that continues them. `stripped`
    is what a template shows of them to a turn of a person (`is_human`), and `stripped_hints` those for it."""

    chain: Chain
    hints: Sequence[PlacementHint]
    stripped: Chain
    stripped_hints: Sequence[PlacementHint]
    is_human: bool = True

    def told_by_template(self) -> Line:
        """The line as the next prompt begins with it."""
        return replace(self, chain=self.stripped, hints=self.stripped_hints) if self.is_human else self


def _with_hint(hints: Sequence[PlacementHint], new: PlacementHint) -> Sequence[PlacementHint]:
    older = (hint for hint in hints if hint.endpoint != new.endpoint)
    return (new, *older)[:HINTS_MAX]


def simulate(scenario: Scenario, make_routers: MakeRouters) -> Result:
    """Runs a scenario in virtual time. `make_routers` makes the routers that share the turns."""
    return virtual_time.run(_Run(scenario).run(make_routers))


def replay(scenario: Scenario, make_routers: MakeRouters, trace: Sequence[TraceLine], *, speed: float = 1.0) -> Result:
    """Replays a trace in virtual time, `speed` times as fast as it was recorded."""
    return virtual_time.run(_Run(scenario).replay(make_routers, trace, speed))


class _Run:
    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._works: dict[str, Work] = {}
        self._replicas = [
            Replica(f"replica-{number}:8001", self._works, kv_tokens=scenario.kv_tokens)
            for number in range(scenario.replicas)
        ]
        self._random = Random(scenario.seed + 7)
        self._ids = count(1)
        self._clock = LoopClock()
        self._result = Result()
        self._seen: set[bytes] = set()
        self._routers: Sequence[Router] = ()

    async def replay(self, make_routers: MakeRouters, trace: Sequence[TraceLine], speed: float) -> Result:
        self._routers = make_routers(self._replicas)
        known: dict[bytes, PlacementHint] = {}
        async with asyncio.TaskGroup() as group:
            for line in trace:
                group.create_task(self._replay(line, line.at_s / speed, known))
        for router in self._routers:
            await router.close()
        return self._figures()

    async def run(self, make_routers: MakeRouters) -> Result:
        self._routers = make_routers(self._replicas)
        waiting = iter(workload.sessions(self._scenario.seed, self._scenario.sessions))
        async with asyncio.TaskGroup() as group:
            others = [group.create_task(self._stop_replicas()), group.create_task(self._send_one_shots(group))]
            starts = [self._random.random() * FIRST_SESSIONS_S for _ in range(self._scenario.at_once)]
            async with asyncio.TaskGroup() as users:
                for start_s in starts:
                    users.create_task(self._user(waiting, start_s))
            for other in others:
                other.cancel()
        for router in self._routers:
            await router.close()
        return self._figures()

    def _figures(self) -> Result:
        result = self._result
        for replica in self._replicas:
            result.cached_tokens += replica.cached_tokens
            result.uncached_tokens += replica.uncached_tokens
            result.generations.append(replica.generations)
        return result

    async def _stop_replicas(self) -> None:
        if self._scenario.stops_from_s is None:
            return
        await asyncio.sleep(self._scenario.stops_from_s)
        for replica in self._replicas:
            replica.stop()
            await asyncio.sleep(DOWN_S)
            replica.start()
            await asyncio.sleep(BETWEEN_STOPS_S - DOWN_S)

    async def _send_one_shots(self, group: asyncio.TaskGroup) -> None:
        """Sends requests that share nothing with any other, until the conversations have ended."""
        random = Random(self._scenario.seed + 99)
        while self._scenario.one_shots_per_s:
            await asyncio.sleep(random.expovariate(self._scenario.one_shots_per_s))
            group.create_task(self._one_shot(workload.one_shot(random)))

    async def _one_shot(self, planned: NextTurn) -> None:
        prompt = Chain().add(planned.input_tokens, planned.content)
        whole = prompt.copy().add(planned.output_tokens, planned.content + b"output")
        turn = FleetTurn(f"r{next(self._ids)}", prompt, planned.content.hex(), None, is_one_shot=True)
        delivery = await self._deliver(turn, Work(prompt, whole, planned.output_tokens))
        self._result.cached_tokens -= delivery.cached_tokens
        self._result.uncached_tokens -= prompt.tokens - delivery.cached_tokens

    async def _user(self, waiting: Iterator[Session], start_s: float) -> None:
        """One after the other, as many sessions as are left for this user."""
        await asyncio.sleep(start_s)
        for session in waiting:
            async with asyncio.TaskGroup() as children:
                script, beginning = Script(session.seed), session.beginning
                await self._branch(session, script, Line(beginning, (), beginning, ()), session.turns, children)
            await asyncio.sleep(self._random.random() * 2)

    async def _branch(
        self, session: Session, script: Script, line: Line, turns: int, children: asyncio.TaskGroup | None
    ) -> None:
        """The turns of one branch. Children of a branch, which has a group for them, have none themselves."""
        earlier: list[Line] = []
        for left in range(turns - 1, -1, -1):
            if back := script.turns_back(len(earlier)):
                line = replace(earlier[-back], is_human=True)
                del earlier[-back:]
            earlier.append(line)
            line = await self._turn(session, script.next_turn(), line.told_by_template() if self._strips else line)
            if script.has_child() and children is not None and left:
                child_turns, seed, pause_s = script.child()
                own = replace(session, key=f"{session.key}/{seed}")  # to its client it is another conversation
                children.create_task(self._child(own, Script(seed), line, child_turns, pause_s))
            pause = script.pause()
            line = replace(line, is_human=pause.is_human)
            if self._scenario.prewarms and pause.is_human and left:
                await self._prewarm(session, line)
            await asyncio.sleep(pause.seconds)

    async def _child(self, session: Session, script: Script, line: Line, turns: int, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        await self._branch(session, script, replace(line, is_human=False), turns, None)

    async def _turn(self, session: Session, planned: NextTurn, line: Line) -> Line:
        """One turn. Returns the line behind it."""
        prompt = line.chain.copy().add(planned.input_tokens, planned.content)
        whole = prompt.copy().add(planned.output_tokens, planned.content + b"output")
        root = RootPrefix(session.root_key, session.root_tokens)
        turn = FleetTurn(f"r{next(self._ids)}", prompt, session.key, root, line.hints)
        new, first_s = await self._serve(turn, Work(prompt, whole, planned.output_tokens))
        if line.is_human:
            self._result.human_first_token_s.append(first_s)
        shown = round(planned.output_tokens * (1 - self._scenario.thinks))
        stripped = prompt.copy() if line.is_human else line.stripped.copy().add(planned.input_tokens, planned.content)
        stripped.add(shown, planned.content + b"answer")
        began = _with_hint(line.hints, replace(new, tokens=prompt.tokens))
        return Line(whole, _with_hint(line.hints, new), stripped, began if line.is_human else line.stripped_hints)

    async def _prewarm(self, session: Session, line: Line) -> None:
        """Has the prompt of the next turn read as far as it is known, if it does not continue this turn's."""
        stripped = line.stripped
        turn = FleetTurn(f"r{next(self._ids)}", stripped, session.key, None, line.stripped_hints, is_prewarm=True)
        delivery = await self._deliver(turn, Work(stripped, stripped, 0))
        if delivery.first_s >= 0:
            uncached = stripped.tokens - delivery.cached_tokens
            self._result.prewarmed_tokens += uncached
            self._result.cached_tokens -= delivery.cached_tokens
            self._result.uncached_tokens -= uncached

    @property
    def _strips(self) -> bool:
        return self._scenario.thinks > 0

    async def _replay(self, line: TraceLine, start_s: float, known: dict[bytes, PlacementHint]) -> None:
        """Sends a request of a trace at its time. `known` are the hints of all earlier prompts, by their last whole
        block: the deepest that is a beginning of this prompt is taken for its parent."""
        await asyncio.sleep(start_s)
        work = line.work()
        blocks = work.prompt.blocks
        parent = next((known[block] for block in reversed(blocks) if block in known), None)
        turn = FleetTurn(f"r{next(self._ids)}", work.prompt, "", line.root(), (parent,) if parent else ())
        hint, _ = await self._serve(turn, work)
        if whole := line.whole_blocks:
            known[blocks[whole - 1]] = replace(hint, tokens=whole * BLOCK_TOKENS)

    async def _serve(self, turn: FleetTurn, work: Work) -> tuple[PlacementHint, float]:
        """Sends a turn until it is served. Returns the hint for those that continue it, and the time to the first
        token."""
        delivery = await self._deliver(turn, work)
        self._count(work.prompt, work.whole, delivery)
        return PlacementHint(delivery.placement, work.whole.tokens, self._clock.now_ms()), delivery.first_s

    async def _deliver(self, turn: FleetTurn, work: Work) -> _Delivery:
        """Sends a turn until it is served."""
        self._works[turn.request_id] = work
        delivery = _Delivery(self._clock)
        while not await self._is_served(turn, delivery):
            await asyncio.sleep(RETRY_S)
        del self._works[turn.request_id]
        return delivery

    async def _is_served(self, turn: FleetTurn, delivery: _Delivery) -> bool:
        try:
            await self._random.choice(self._routers).generate(turn, delivery)
        except EngineUnavailable:
            self._result.failed += 1
            return False
        return True

    def _count(self, prompt: Chain, whole: Chain, delivery: _Delivery) -> None:
        result = self._result
        result.turns += 1
        result.input_tokens += prompt.tokens
        result.first_token_s.append(delivery.first_s)
        known = next((at for at, block in enumerate(prompt.blocks) if block not in self._seen), len(prompt.blocks))
        result.possible_tokens += known * BLOCK_TOKENS
        self._seen.update(whole.blocks[known:])


class _Delivery:
    """Takes the chunks of one turn: the time to the first of them, and the placement of the last endpoint,
    and what it had of the prompt in its cache."""

    def __init__(self, clock: LoopClock) -> None:
        self._clock = clock
        self._started_s = clock.monotonic()
        self.first_s = -1.0
        self.placement = ""
        self.cached_tokens = 0

    def __call__(self, chunks: Sequence[EngineChunk]) -> bool:
        if self.first_s < 0:
            self.first_s = self._clock.monotonic() - self._started_s
        self.placement = chunks[0].placement or self.placement
        if isinstance(chunks[0], TokenChunk) and chunks[0].facts is not None:
            self.cached_tokens = chunks[0].facts.cached_tokens or 0
        return True
