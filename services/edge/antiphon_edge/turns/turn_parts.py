"""Composition: the parts that run turns in an edge or a worker, built from those without needs up.

    process | part                | has
    --------+---------------------+----------------------------------------------------------------------
    both    | StoreWatch          | the store
            | the fail-fast store | the store, StoreWatch: for calls that somebody waits for
            | TurnBuilder         | the fail-fast store, Sealer
            | TurnJobs            | the store
            | LineageSearch       | the fail-fast store, RememberedLineages
            | TurnFinisher        | the store, RememberedLineages
            | LostTurns           | the store, TurnJobs, TurnFinisher
            | TurnStarter         | the fail-fast store, StoreWatch, Cleanup, TurnBuilder, LostTurns, LineageSearch
            | EndedTurns          | the fail-fast store
            | TurnRunner          | the store, the translator, Cleanup, Sealer, EndedTurns, Tools if there are any
            | Background          | a store, the translator, TurnStarter, Cleanup
    edge    | CallerPolicy        | TurnStarter, TurnFinisher, TurnJobs, Meter, Cleanup
            | KeyedTurns          | the store, TurnRunner, TurnJobs, CallerPolicy, Cleanup
            | TurnService         | the translator, TurnStarter, TurnRunner, TurnJobs, KeyedTurns, LostTurns,
            |                     | CallerPolicy
    worker  | BackgroundPolicy, per job | the store, TurnStarter, a TurnFinisher and the Meter of the worker

`server.py` builds an edge from these, with its routes; `background/worker.py` builds a worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from antiphon_core.clock import Clock
from antiphon_core.ids import Ids
from antiphon_core.limits import REMEMBERED_LINEAGES_S
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.tools import Tools
from antiphon_core.ports.translator import Translator
from antiphon_edge.quotas.long_work import LongWork
from antiphon_edge.quotas.metering import Meter
from antiphon_edge.quotas.response_readers import ResponseReaders
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.store_calls import StoreWatch, fail_fast
from antiphon_edge.tools.limits import DEFAULT_LIMITS, ToolLimits
from antiphon_edge.turns.caller_policy import CallerPolicy
from antiphon_edge.turns.cleanup import Cleanup
from antiphon_edge.turns.durable_turns import TurnJobs
from antiphon_edge.turns.ended_turns import EndedTurns
from antiphon_edge.turns.keyed_turns import KeyedTurns
from antiphon_edge.turns.lineage_search import LineageSearch, RememberedLineages
from antiphon_edge.turns.lost_turns import LostTurns
from antiphon_edge.turns.tool_loop import run_rounds
from antiphon_edge.turns.turn_finisher import TurnFinisher
from antiphon_edge.turns.turn_input import TurnBuilder
from antiphon_edge.turns.turn_runner import RunRounds, TurnRunner, without_tools
from antiphon_edge.turns.turn_service import TurnService
from antiphon_edge.turns.turn_starter import TurnStarter
from antiphon_edge.turns.turn_timing import DEFAULT_TIMING, TurnTiming


@dataclass(frozen=True, slots=True)
class TurnParts:
    """The parts that all turns of a process share."""

    store: FullStore
    """For the writes of running turns, which must not be lost."""
    fail_fast_store: FullStore
    """For calls that somebody waits for: they fail within a second if the store does not answer."""
    translator: Translator
    watch: StoreWatch
    cleanup: Cleanup
    sealer: Sealer
    timing: TurnTiming
    jobs: TurnJobs
    finisher: TurnFinisher
    lost_turns: LostTurns
    starter: TurnStarter
    runner: TurnRunner

    @classmethod
    def of(
        cls,
        store: FullStore,
        translator: Translator,
        *,
        clock: Clock,
        ids: Ids,
        sealer: Sealer,
        timing: TurnTiming = DEFAULT_TIMING,
        wait_ms: int = 0,
        long_work: LongWork | None = None,
        tools: Tools | None = None,
        tool_limits: ToolLimits = DEFAULT_LIMITS,
        remembered_s: float = REMEMBERED_LINEAGES_S,
    ) -> TurnParts:
        """`wait_ms`: how long a turn waits for another turn that runs in its session. `tools` calls tools of
        servers, within `tool_limits`. `remembered_s`: how long lineages of turns that are not stored are kept."""
        watch, cleanup, long_work = StoreWatch(store), Cleanup(), long_work or LongWork()
        answering = fail_fast(store, watch)
        builder = TurnBuilder(answering, clock=clock, ids=ids, sealer=sealer, long_work=long_work)
        remembered = RememberedLineages(clock=clock, ttl_s=remembered_s)
        jobs, finisher = TurnJobs(store, ids=ids, timing=timing), TurnFinisher(store, remembered)
        lost_turns = LostTurns(store, jobs, finisher)
        search = LineageSearch(answering, remembered)
        begin = partial(TurnStarter, clock=clock, ids=ids, wait_ms=wait_ms, long_work=long_work)
        starter = begin(answering, watch, cleanup, builder, lost_turns, search)
        runner = TurnRunner(
            store,
            translator,
            sealer=sealer,
            cleanup=cleanup,
            timing=timing,
            long_work=long_work,
            ended_turns=EndedTurns(answering, long_work),
            run_rounds=_rounds(tools, clock, tool_limits),
        )
        return cls(
            store, answering, translator, watch, cleanup, sealer, timing, jobs, finisher, lost_turns, starter, runner
        )


def _rounds(tools: Tools | None, clock: Clock, limits: ToolLimits) -> RunRounds:
    return partial(run_rounds, tools=tools, clock=clock, limits=limits) if tools is not None else without_tools


def turn_service(parts: TurnParts, *, meter: Meter, readers: ResponseReaders | None = None) -> TurnService:
    """Builds the service that runs the turns of an edge."""
    policy = CallerPolicy(parts.starter, parts.finisher, parts.jobs, meter, cleanup=parts.cleanup)
    keyed_turns = KeyedTurns(
        parts.store,
        parts.runner,
        parts.jobs,
        policy=policy,
        cleanup=parts.cleanup,
        timing=parts.timing,
        readers=readers,
    )
    return TurnService(
        parts.translator,
        parts.starter,
        parts.runner,
        parts.jobs,
        keyed_turns,
        parts.lost_turns,
        policy=policy,
        cleanup=parts.cleanup,
    )
