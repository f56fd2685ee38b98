"""Ways to choose a replica for a turn: Antiphon's own code, and the rules of other routers, written from their sources.

Another router sees its replicas' loads and whether they are up at once, which flatters it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from antiphon_core.errors import EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_translator.engines import replica_metrics
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.endpoints import EndpointsEngine
from antiphon_translator.engines.replica_metrics import ReplicaMetrics
from antiphon_translator.generation import GenerationRequest, TokenPrompt
from antiphon_translator.placement import PlacementHint, RootPrefix
from tests.support.kv_fleet.blocks import BLOCK_TOKENS, Chain
from tests.support.kv_fleet.replica import Replica
from tests.support.kv_fleet.virtual_time import LoopClock


@dataclass(frozen=True, slots=True)
class FleetTurn:
    """A turn as routers see it."""

    request_id: str
    prompt: Chain
    session_key: str
    root: RootPrefix | None
    hints: Sequence[PlacementHint] = ()
    is_one_shot: bool = False
    is_prewarm: bool = False

    def request(self) -> GenerationRequest:
        """The request for an engine, without hints."""
        tokens = self.prompt.tokens
        return GenerationRequest(
            request_id=self.request_id,
            prompt=TokenPrompt(range(tokens)),
            max_tokens=2**31,
            prompt_tokens=tokens,
            block_tokens=BLOCK_TOKENS,
            is_prewarm=self.is_prewarm,
        )


class Router(Protocol):
    """One process that routes turns."""

    async def generate(self, turn: FleetTurn, deliver: Deliver) -> None: ...

    async def close(self) -> None: ...


class ReplicaPages:
    """The replicas' metrics, without HTTP."""

    def __init__(self, replicas: Mapping[str, Replica]) -> None:
        self._replicas = replicas

    async def fetch(self, name: str) -> ReplicaMetrics:
        await self._replicas[name].ready()
        return replica_metrics.read(self._replicas[name].metrics())


class AntiphonRouter:
    """One translator: the engine that it has for a model with several endpoints."""

    def __init__(
        self,
        replicas: Sequence[Replica],
        request_of: Callable[[FleetTurn], GenerationRequest],
        *,
        translators: int,
        is_polling: bool = False,
    ) -> None:
        """`is_polling`: the translator reads the replicas' metrics."""
        engines = {replica.name: replica for replica in replicas}
        loads = ReplicaPages(engines).fetch if is_polling else None
        self._engine = EndpointsEngine(engines, LoopClock(), translators=translators, loads=loads)
        self._request_of = request_of

    async def generate(self, turn: FleetTurn, deliver: Deliver) -> None:
        await self._engine.controls()
        await self._engine.generate(self._request_of(turn), deliver, Flow())

    async def close(self) -> None:
        await self._engine.close()


class RuleRouter:
    """A router with another rule, which is asked again when the chosen replica is lost."""

    def __init__(self, replicas: Sequence[Replica], rule: Rule) -> None:
        self._replicas = replicas
        self._rule = rule

    async def generate(self, turn: FleetTurn, deliver: Deliver) -> None:
        while live := [replica for replica in self._replicas if replica.is_up]:
            replica = self._rule.choose(turn, live)
            try:
                await replica.generate(turn.request(), deliver, Flow())
                return
            except EngineUnavailable:
                continue
            finally:
                self._rule.note_end(replica)
        raise EngineUnavailable("No replica is up.")

    async def close(self) -> None:
        pass


class Rule:
    """A rule that counts the turns of its own router at each replica."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.own: defaultdict[str, int] = defaultdict(int)

    def choose(self, turn: FleetTurn, live: Sequence[Replica]) -> Replica:
        chosen = self.pick(turn, live)
        self.own[chosen.name] += 1
        return chosen

    def pick(self, turn: FleetTurn, live: Sequence[Replica]) -> Replica:
        raise NotImplementedError

    def note_end(self, replica: Replica) -> None:
        self.own[replica.name] -= 1

    def least(self, live: Sequence[Replica], key: Callable[[Replica], float]) -> Replica:
        return min(live, key=lambda replica: (key(replica), self.random.random()))


class RoundRobin(Rule):
    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._turns = 0

    def pick(self, turn: FleetTurn, live: Sequence[Replica]) -> Replica:
        self._turns += 1
        return live[self._turns % len(live)]


class LeastLoaded(Rule):
    def pick(self, turn: FleetTurn, live: Sequence[Replica]) -> Replica:
        return self.least(live, lambda replica: replica.waiting + replica.running)


class ApproximateTree(Rule):
    """SGLang's gateway with tuned thresholds: a tree of the prompts that this router sent. The replica of the longest
    match, if that is half of the prompt and the replica is not overloaded; else the one with the least load, or with
    the smallest tree."""

    MATCH_MIN, ABOVE_MEAN, TIMES_MEAN = 0.5, 4, 1.5

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._tree: defaultdict[bytes, set[str]] = defaultdict(set)
        self._size: defaultdict[str, int] = defaultdict(int)

    def pick(self, turn: FleetTurn, live: Sequence[Replica]) -> Replica:
        blocks, matched = turn.prompt.blocks, self._matched(turn.prompt.blocks)
        chosen = max(live, key=lambda replica: (matched[replica.name], -self.own[replica.name]))
        if matched[chosen.name] <= self.MATCH_MIN * len(blocks):
            chosen = min(live, key=lambda replica: self._size[replica.name])
        elif self._is_overloaded(chosen, live):
            chosen = min(live, key=lambda replica: self.own[replica.name])
        for block in blocks:
            self._size[chosen.name] += chosen.name not in self._tree[block]
            self._tree[block].add(chosen.name)
        return chosen

    def _matched(self, blocks: Sequence[bytes]) -> defaultdict[str, int]:
        matched: defaultdict[str, int] = defaultdict(int)
        for place, block in enumerate(blocks):
            if not (names := self._tree.get(block)):
                break
            for name in names:
                matched[name] = place + 1
        return matched

    def _is_overloaded(self, chosen: Replica, live: Sequence[Replica]) -> bool:
        mean = sum(self.own[replica.name] for replica in live) / len(live)
        return self.own[chosen.name] > max(mean + self.ABOVE_MEAN, mean * self.TIMES_MEAN)


class ExactEvents(Rule):
    """llm-d's precise prefix scorer with its default weights: 2 for the share of the prompt in the cache, 1 each for a
    short queue and for few running requests."""

    RUNNING_WEIGHT = 0.02

    def pick(self, turn: FleetTurn, live: Sequence[Replica]) -> Replica:
        blocks = turn.prompt.blocks
        longest = max(1, *(replica.waiting for replica in live))

        def score(replica: Replica) -> float:
            share = replica.cache.match(blocks).device / max(len(blocks), 1)
            return 2 * share + (1 - replica.waiting / longest) + (1 - self.RUNNING_WEIGHT * replica.running)

        return self.least(live, lambda replica: -score(replica))


class ExactCost(Rule):
    """Exact events with Dynamo's rule: the fewest blocks that wait or are to be prefilled."""

    def pick(self, turn: FleetTurn, live: Sequence[Replica]) -> Replica:
        blocks = turn.prompt.blocks

        def cost(replica: Replica) -> float:
            missing = len(blocks) - replica.cache.match(blocks).device
            return missing + replica.backlog_tokens / BLOCK_TOKENS + 4 * (replica.waiting + replica.running)

        return self.least(live, cost)
