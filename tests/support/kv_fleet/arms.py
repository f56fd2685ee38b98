"""The ways of routing that are compared, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

from antiphon_translator.generation import GenerationRequest, Retention
from antiphon_translator.turn.cache_retention import LOW, LOW_OUTPUT, Layer, ranges_of
from tests.support.kv_fleet.replica import Replica
from tests.support.kv_fleet.routers import (
    AntiphonRouter,
    ApproximateTree,
    ExactCost,
    ExactEvents,
    FleetTurn,
    LeastLoaded,
    RoundRobin,
    Router,
    Rule,
    RuleRouter,
)
from tests.support.kv_fleet.simulation import MakeRouters


def _by_hints(turn: FleetTurn) -> GenerationRequest:
    return replace(turn.request(), placement=turn.hints, root=turn.root)


def _with_retention(turn: FleetTurn) -> GenerationRequest:
    """The request with the hints about its blocks that a translator sends with one that nothing continues."""
    retention = Retention(ranges_of([Layer(None, LOW)]), LOW_OUTPUT) if turn.is_one_shot else None
    return replace(_by_hints(turn), retention=retention)


def _by_key(turn: FleetTurn) -> GenerationRequest:
    """The request of a client that sends `prompt_cache_key`, without what a record knows of its prompt."""
    return replace(turn.request(), cache_key=turn.session_key)


def _antiphon(
    request_of: Callable[[FleetTurn], GenerationRequest], translators: int, *, is_polling: bool = False
) -> MakeRouters:
    def make(replicas: Sequence[Replica]) -> Sequence[Router]:
        return [
            AntiphonRouter(replicas, request_of, translators=translators, is_polling=is_polling)
            for _ in range(translators)
        ]

    return make


def _rule(rule: Callable[[Random], Rule], routers: int = 1) -> MakeRouters:
    def make(replicas: Sequence[Replica]) -> Sequence[Router]:
        return [RuleRouter(replicas, rule(Random(5 + number))) for number in range(routers)]

    return make


KEY_RULE, FOUR_TRANSLATORS = "key alone, 4 translators", "Antiphon, 4 translators"
ARMS: Mapping[str, MakeRouters] = {
    "round robin": _rule(RoundRobin),
    "least loaded": _rule(LeastLoaded),
    KEY_RULE: _antiphon(_by_key, 4),
    "approximate tree (SMG), 1 router": _rule(ApproximateTree),
    "approximate tree (SMG), 4 routers": _rule(ApproximateTree, 4),
    "exact events, weights": _rule(ExactEvents),
    "exact events, cost": _rule(ExactCost),
    "Antiphon, 1 translator": _antiphon(_by_hints, 1),
    FOUR_TRANSLATORS: _antiphon(_by_hints, 4),
    "Antiphon, 8 translators": _antiphon(_by_hints, 8),
    "Antiphon, 4 translators that poll loads": _antiphon(_by_hints, 4, is_polling=True),
}
PLAIN_MIX, RETAINING_MIX = "all prompts of one priority", "one-shots leave first"
MIX_ARMS: Mapping[str, MakeRouters] = {
    "approximate tree (SMG), 1 router": _rule(ApproximateTree),
    PLAIN_MIX: _antiphon(_by_hints, 4),
    RETAINING_MIX: _antiphon(_with_retention, 4),
}
"""Those that are compared with one-shot requests between the conversations."""
