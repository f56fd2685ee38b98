from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import AntiphonError, EngineFault, EngineMisconfigured, EngineTimeout, EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_core.retrying import ENDPOINTS
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.endpoint_choice import EJECT_FIRST_S, FAULTS_TO_EJECT, Chosen, Outcome
from antiphon_translator.engines.endpoints import EndpointsEngine
from antiphon_translator.engines.load_polls import Fetch
from antiphon_translator.engines.placement_cost import rank
from antiphon_translator.engines.replica_metrics import ReplicaMetrics
from antiphon_translator.engines.scripted import Break, Emit, Hang, ScriptedEngine, Step
from antiphon_translator.generation import (
    EngineChunk,
    EngineFacts,
    FinishReason,
    GenerationRequest,
    Guide,
    GuideKind,
    Level,
    ReportedUsage,
    TextChunk,
    TextPrompt,
    TokenChunk,
    TokenLogprob,
    TokenPrompt,
)
from antiphon_translator.placement import PlacementHint, placement_of
from tests.support import pushed
from tests.support.chunks import only

REQUEST = GenerationRequest(request_id="r", prompt=TokenPrompt((1, 2)), max_tokens=10, stop_ids=(0,))
GONE = Break(EngineUnavailable("gone"))


class Fleet:
    """Scripted engines, named a, b, c."""

    def __init__(self, *scripts: Sequence[Step], loads: Fetch | None = None) -> None:
        self.engines = [ScriptedEngine(script) for script in scripts]
        self.clock = ManualClock()
        self.placed: list[Chosen] = []
        self.loads: list[tuple[str, ReplicaMetrics | None]] = []
        self.forgotten: list[str] = []
        engines = dict(zip("abcdefgh", self.engines, strict=False))
        self.engine = EndpointsEngine(engines, self.clock, watch=self, loads=loads)

    async def ids(self, request: GenerationRequest = REQUEST) -> list[int]:
        chunks = await self.chunks(request)
        return [token for chunk in only(TokenChunk, chunks) for token in chunk.ids]

    async def chunks(self, request: GenerationRequest) -> list[EngineChunk]:
        await self.settle()
        async with aclosing(pushed.chunks(self.engine, request)) as batches:
            return [chunk async for batch in batches for chunk in batch]

    async def settle(self) -> None:
        """Lets the background probes of endpoints finish whose pause has ended."""
        with suppress(EngineUnavailable):
            await self.engine.controls()
        await asyncio.sleep(0)

    def count_migration(self) -> None:
        pass

    def count_placement(self, chosen: Chosen) -> None:
        self.placed.append(chosen)

    def note_load(self, endpoint: str, load: ReplicaMetrics | None) -> None:
        self.loads.append((endpoint, load))

    def forget(self, endpoints: Iterable[str]) -> None:
        self.forgotten += endpoints

    def request_counts(self) -> list[int]:
        """The number of generations of each engine."""
        return [len(engine.requests) for engine in self.engines]

    def serves_text(self) -> None:
        for engine in self.engines:
            engine.level = Level.TEXT


async def test_generation_that_loses_its_endpoint_resumes_behind_its_last_token() -> None:
    fleet = Fleet([Emit([5], [6, 7]), GONE], [Emit([8], [0])])
    assert await fleet.ids() == [5, 6, 7, 8, 0]
    (moved,) = fleet.engines[1].requests
    assert moved == replace(REQUEST, prompt=TokenPrompt((1, 2, 5, 6, 7)), max_tokens=7)
    assert fleet.engine.migrations == 1


async def test_generation_that_moves_keeps_its_log_probabilities() -> None:
    scored = [TokenChunk([number], logprobs=(TokenLogprob(number, -number / 8),)) for number in (5, 6, 0)]
    fleet = Fleet([Emit(*scored[:2]), GONE], [Emit(scored[2])])
    asked = replace(REQUEST, top_logprobs=0)
    async with aclosing(pushed.chunks(fleet.engine, asked)) as batches:
        assert [chunk async for batch in batches for chunk in batch] == scored
    (moved,) = fleet.engines[1].requests
    assert moved == replace(asked, prompt=TokenPrompt((1, 2, 5, 6)), max_tokens=8)


async def test_text_with_a_stop_token_is_not_complete_without_a_finish_reason() -> None:
    stop = TextChunk("a", logprobs=(TokenLogprob(REQUEST.stop_ids[0], -0.5),))
    fleet = Fleet([Emit(stop), GONE], [Emit([6])])
    fleet.serves_text()
    with pytest.raises(EngineUnavailable):
        await fleet.ids(replace(REQUEST, top_logprobs=0))


async def test_generation_that_times_out_resumes_at_another_endpoint() -> None:
    fleet = Fleet([Emit([5]), Break(EngineTimeout("silence"))], [Emit([6], [0])])
    assert await fleet.ids() == [5, 6, 0]


async def test_generation_whose_endpoint_is_misconfigured_runs_at_another_endpoint() -> None:
    fleet = Fleet([Break(EngineMisconfigured("no such model"))], [Emit([6], [0])])
    assert await fleet.ids() == [6, 0]
    alone = Fleet([Break(EngineMisconfigured("no such model"))])
    with pytest.raises(EngineMisconfigured):
        await alone.ids()


async def test_engine_fault_is_not_retried_at_another_endpoint() -> None:
    fleet = Fleet([Emit([5]), Break(EngineFault("out of paper"))], [Emit([6], [0])])
    with pytest.raises(EngineFault):
        await fleet.ids()
    assert fleet.request_counts() == [1, 0]


@pytest.mark.parametrize("last", [[0], [6, 7, 8, 9, 5, 6, 7, 8, 9]], ids=["a stop id", "all tokens"])
async def test_error_behind_the_last_token_needs_no_other_endpoint(last: list[int]) -> None:
    fleet = Fleet([Emit([5]), Emit(last), GONE], [Emit([6], [0])])
    assert await fleet.ids() == [5, *last]
    assert fleet.request_counts() == [1, 0]


async def test_the_number_of_moves_is_bounded() -> None:
    fleet = Fleet(*((Emit([number]), GONE) for number in range(1, 9)))
    with pytest.raises(EngineUnavailable, match="gone"):
        await fleet.ids()
    assert sum(fleet.request_counts()) == ENDPOINTS.attempts_max


async def test_no_endpoint_is_tried_twice() -> None:
    fleet = Fleet([Emit([5]), GONE], [Emit([6]), GONE])
    with pytest.raises(EngineUnavailable, match="gone"):
        await fleet.ids()
    assert fleet.request_counts() == [1, 1]


async def test_guided_generation_moves_only_before_its_first_token() -> None:
    guided = replace(REQUEST, guide=Guide(GuideKind.JSON))
    with pytest.raises(EngineUnavailable):
        await Fleet([Emit([5]), GONE], [Emit([6], [0])]).ids(guided)
    assert await Fleet([GONE], [Emit([6], [0])]).ids(guided) == [6, 0]


async def test_text_moves_only_before_its_first_chunk() -> None:
    text, one, two = replace(REQUEST, prompt=TextPrompt("Hi")), TextChunk("a"), TextChunk("b", FinishReason.STOP)
    begun = Fleet([Emit(one), GONE], [Emit(two)])
    begun.serves_text()
    with pytest.raises(EngineUnavailable):
        await begun.chunks(text)
    fresh = Fleet([GONE], [Emit(two)])
    fresh.serves_text()
    assert await fresh.chunks(text) == [two]
    assert fresh.engines[1].requests == [text]
    assert fresh.engine.migrations == 0
    ended = Fleet([Emit(two), GONE], [Emit(one)])
    ended.serves_text()
    assert await ended.chunks(text) == [two]


async def test_failed_endpoint_is_ejected_until_its_pause_ends() -> None:
    fleet = Fleet([GONE], [Emit([0])])
    for _ in range(3):
        await fleet.ids()
    assert fleet.request_counts() == [1, 3]
    fleet.clock.advance(EJECT_FIRST_S)
    fleet.engines[0].script = [Emit([0])]
    await fleet.ids()
    assert fleet.request_counts() == [2, 3]


async def test_requests_with_one_cache_key_go_to_one_endpoint() -> None:
    fleet = Fleet([Emit([0])], [Emit([0])], [Emit([0])])
    for _ in range(5):
        await fleet.ids(replace(REQUEST, cache_key="k"))
    assert sorted(fleet.request_counts()) == [0, 0, 5]


async def test_prompt_stays_where_its_beginning_lies_until_that_endpoint_reports_it_lost() -> None:
    fleet = Fleet([Emit(TokenChunk([0], facts=EngineFacts(cached_tokens=9_000)))], [Emit([0])], [Emit([0])])
    hint = PlacementHint(placement_of("a"), 9_000, fleet.clock.now_ms() - 1_000)
    request = replace(REQUEST, placement=[hint], prompt_tokens=10_000)
    for _ in range(3):
        await fleet.ids(request)
    assert fleet.request_counts() == [3, 0, 0]
    fleet.engines[0].script = [Emit(TokenChunk([0], facts=EngineFacts(cached_tokens=0)))]
    for _ in range(3):
        await fleet.ids(request)
    assert fleet.request_counts() == [4, 1, 1]
    assert [chosen.outcome for chosen in fleet.placed] == [Outcome.KEPT] * 4 + [Outcome.ROOT] * 2


async def test_facts_of_a_lost_beginning_have_its_cause_whatever_the_engine_delivers() -> None:
    hint = PlacementHint(placement_of("gone"), 9_000, 0)
    request = replace(REQUEST, placement=[hint], prompt_tokens=10_000)
    fleet = Fleet([Emit(TokenChunk([0]), TokenChunk([1], facts=EngineFacts(cached_tokens=64)), TokenChunk([2]))])
    facts = [chunk.facts for chunk in only(TokenChunk, await fleet.chunks(request))]
    assert facts == [None, EngineFacts(cached_tokens=64, lost_to="other_replica"), None]
    fleet = Fleet([Emit(TextChunk("a", usage=ReportedUsage(cached_tokens=64)))])
    fleet.serves_text()
    (chunk,) = only(TextChunk, await fleet.chunks(replace(request, prompt=TextPrompt("Hi"))))
    assert chunk.usage == ReportedUsage(cached_tokens=64, lost_to="other_replica")


@pytest.mark.parametrize(
    "last", [Emit([0]), Hang(), Break(EngineFault("out of paper"))], ids=["end", "cancel", "error"]
)
async def test_generation_leaves_no_backlog_behind(last: Step) -> None:
    fleet = Fleet([last])
    await fleet.settle()
    running = asyncio.create_task(fleet.engine.generate(replace(REQUEST, prompt_tokens=5_000), lambda _: True, Flow()))
    await asyncio.wait({running}, timeout=0)
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running})
    assert fleet.placed[0].endpoint.cache.backlog_tokens == 0
    assert fleet.placed[0].endpoint.cache.pressure(fleet.clock.monotonic()) == 5_000


class Loads:
    """The load of each endpoint, as it reports it itself; an endpoint without one does not answer."""

    def __init__(self, waiting: Mapping[str, float]) -> None:
        self.waiting = waiting

    async def fetch(self, name: str) -> ReplicaMetrics:
        if name not in self.waiting:
            raise EngineUnavailable("gone")
        return ReplicaMetrics(waiting=self.waiting[name])


async def test_reported_load_moves_a_prompt_and_a_failed_poll_says_nothing() -> None:
    fleet = Fleet([Emit([0])], [Emit([0])], loads=Loads({"a": 50}).fetch)
    hint = PlacementHint(placement_of("a"), 9_000, fleet.clock.now_ms() - 1_000)
    request = replace(REQUEST, placement=[hint], prompt_tokens=10_000)
    await fleet.ids(request)  # begins the polls
    while len(fleet.loads) < 2:
        await asyncio.sleep(0)
    for _ in range(2):
        await fleet.ids(request)
    assert [chosen.outcome for chosen in fleet.placed] == [Outcome.KEPT, Outcome.MOVED_LOAD, Outcome.MOVED_LOAD]
    assert sorted(fleet.loads) == [("a", ReplicaMetrics(waiting=50)), ("b", None)]
    await fleet.engine.close()
    assert fleet.forgotten == ["a", "b"]


async def test_generation_counts_as_in_flight_until_it_is_closed() -> None:
    fleet = Fleet([Emit([5]), Hang()], [Emit([5]), Hang()])
    first, second = pushed.chunks(fleet.engine, REQUEST), pushed.chunks(fleet.engine, REQUEST)
    await anext(first)
    await anext(second)
    assert fleet.request_counts() == [1, 1]
    await second.aclose()
    async with asyncio.timeout(30):
        await fleet.engines[1].stopped.wait()
    third = pushed.chunks(fleet.engine, REQUEST)
    await anext(third)
    assert fleet.request_counts() == [1, 2]
    await third.aclose()
    await first.aclose()


async def test_endpoints_of_different_kinds_are_named_to_the_operator_only(caplog: pytest.LogCaptureFixture) -> None:
    engines = {name: ScriptedEngine([]) for name in ("triton-a:8001", "triton-b:8001")}
    engines["triton-b:8001"].level = Level.TEXT
    with pytest.raises(EngineUnavailable) as caught:
        await EndpointsEngine(engines, ManualClock()).controls()
    assert "8001" not in caught.value.message
    assert "triton-a:8001, triton-b:8001" in caplog.text


async def test_only_controls_of_all_endpoints_are_controls_of_the_fleet() -> None:
    engines = {name: ScriptedEngine([], controls=frozenset(given)) for name, given in (("a", "xy"), ("b", "yz"))}
    fleet = EndpointsEngine(engines, ManualClock())
    assert await fleet.controls() == {"y"}
    engines["b"].level = Level.TEXT
    with pytest.raises(EngineUnavailable, match="serve different kinds"):
        await fleet.controls()


async def test_engine_is_ready_while_one_endpoint_is_ready() -> None:
    fleet = Fleet([Emit([0])], [Emit([0])])
    fleet.engines[0].unavailable = "a is down"
    await fleet.engine.ready()
    await fleet.ids()
    assert fleet.request_counts() == [0, 1]
    fleet.engines[1].unavailable = "b is down"
    with pytest.raises(EngineUnavailable, match="a is down"):
        await fleet.engine.ready()


async def test_close_closes_all_endpoints() -> None:
    fleet = Fleet([], [])
    await fleet.engine.close()
    assert [engine.unavailable for engine in fleet.engines] == ["The engine is closed."] * 2


async def test_many_faults_in_a_row_eject_an_endpoint_with_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    fleet = Fleet([Break(EngineFault("out of paper"))], [Emit([0])])
    for _ in range(2 * FAULTS_TO_EJECT):  # in turn
        with suppress(EngineFault):
            await fleet.ids()
    await fleet.ids()
    await fleet.ids()
    assert fleet.request_counts() == [FAULTS_TO_EJECT, FAULTS_TO_EJECT + 2]
    assert [line for line in caplog.messages if "ejected" in line] == [
        "a is ejected for 1.0 s: The engine answered with 5 errors in a row; the last one: out of paper"
    ]


async def test_endpoint_lost_after_the_client_stopped_reading_is_not_replaced() -> None:
    class Losing(ScriptedEngine):
        async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
            await super().generate(request, deliver, flow)
            raise EngineUnavailable("gone")

    fleet = Fleet([], [Emit([6], [0])])
    fleet.engines[0] = Losing([Emit([5])])
    fleet.engine = EndpointsEngine(dict(zip("ab", fleet.engines, strict=True)), fleet.clock)
    await fleet.settle()
    deliveries = pushed.Deliveries(most=1)
    await fleet.engine.generate(REQUEST, deliveries, Flow())
    assert (deliveries.ids, fleet.request_counts()) == ([5], [1, 0])


async def test_client_that_stops_reading_counts_as_a_success() -> None:
    fleet = Fleet([GONE], [Emit([0])])
    await fleet.ids()
    fleet.clock.advance(EJECT_FIRST_S)
    fleet.engines[0].script = [Emit([5]), Hang()]
    await fleet.settle()
    async with aclosing(pushed.chunks(fleet.engine, replace(REQUEST, cache_key=key_of(fleet, 0)))) as batches:
        await anext(batches)
    fleet.engines[0].script = [GONE]
    await fleet.ids(replace(REQUEST, cache_key=key_of(fleet, 0)))
    fleet.clock.advance(EJECT_FIRST_S)  # the pause after a first failure
    await fleet.ids(replace(REQUEST, cache_key=key_of(fleet, 0)))
    assert fleet.request_counts()[0] == 4


def key_of(fleet: Fleet, number: int) -> str:
    """A cache key whose first choice is this endpoint."""
    names = "abcdefgh"[: len(fleet.engines)]
    keys = (f"key-{n}" for n in range(99))
    return next(key for key in keys if max(names, key=lambda name: rank(key, name)) == names[number])


def prewarm_of(fleet: Fleet) -> GenerationRequest:
    """A prompt to read in advance at the first endpoint."""
    hint = PlacementHint(placement_of("a"), 9_000, fleet.clock.now_ms() - 1_000)
    return replace(REQUEST, placement=[hint], prompt_tokens=10_000, is_prewarm=True)


async def test_prompt_read_in_advance_stays_at_its_endpoint_and_is_no_placement() -> None:
    fleet = Fleet([Emit([5])], [Emit([6])])
    assert await fleet.ids(prewarm_of(fleet)) == [5]
    fleet.engines[0].script = [GONE]
    with pytest.raises(EngineUnavailable):
        await fleet.ids(prewarm_of(fleet))
    assert (fleet.request_counts(), fleet.placed) == ([2, 0], [])


async def test_prompt_that_an_endpoint_did_not_read_is_no_success_of_it() -> None:
    fleet = Fleet([Break(EngineFault("out of paper"))], [Emit([0])])
    turn = replace(prewarm_of(fleet), is_prewarm=False)
    for _ in range(FAULTS_TO_EJECT - 1):
        with pytest.raises(EngineFault):
            await fleet.ids(turn)
    fleet.engines[0].script = []
    assert await fleet.ids(prewarm_of(fleet)) == []
    fleet.engines[0].script = [Break(EngineFault("out of paper"))]
    with pytest.raises(EngineFault):
        await fleet.ids(turn)
    assert await fleet.ids(turn) == [0], "the first endpoint is ejected"


@pytest.mark.parametrize("error", [EngineTimeout("silence"), EngineFault("out of paper")])
async def test_prompt_read_in_advance_ejects_no_endpoint_by_its_waiting_or_faults(error: AntiphonError) -> None:
    fleet = Fleet([Break(error)], [Emit([0])])
    for _ in range(FAULTS_TO_EJECT):
        with pytest.raises(type(error)):
            await fleet.ids(prewarm_of(fleet))
    fleet.engines[0].script = [Emit([5], [0])]
    assert await fleet.ids(replace(prewarm_of(fleet), is_prewarm=False)) == [5, 0]
