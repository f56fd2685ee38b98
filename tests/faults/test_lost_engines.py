"""A Triton server dies, hangs or fails in the middle of a turn, while another one serves the same model: the events
that the client gets."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

import pytest
import pytest_asyncio

from antiphon_core import response
from antiphon_core.clock import SystemClock
from antiphon_core.errors import AntiphonError, EngineFault, EngineTimeout, EngineUnavailable
from antiphon_core.jsons import loads
from antiphon_core.ports.store import Status
from antiphon_local_triton.repository import MODEL_NAME
from antiphon_translator.engines.endpoint_choice import EJECT_FIRST_S
from antiphon_translator.engines.endpoints import EndpointsEngine
from antiphon_translator.service import TranslatorService
from tests.support.served_models import tokenizer, turn
from tests.support.triton import SIGNATURES, RunningTriton, ScriptedModel, smollm2_server, triton_server
from tests.support.turns import NOTHING, Happenings, Ran, engine_on, named, run, serving
from tests.support.volume import volume
from tests.support.waiting import WAIT_MAX_S, until, with_retries

pytestmark = pytest.mark.asyncio(loop_scope="module")

TRIES = 5


def fleet_on(*servers: RunningTriton, name: str = MODEL_NAME, **limits: float) -> EndpointsEngine:
    """The servers as endpoints of one engine. The first turn goes to the first server once all have answered a probe.
    The timeouts are only for the first server, which is to miss them: the others may be busy."""
    first, *others = servers
    engines = {first.grpc_address: engine_on(first, name=name, **limits)}
    engines |= {other.grpc_address: engine_on(other, name=name) for other in others}
    return EndpointsEngine(engines, SystemClock())


@asynccontextmanager
async def serving_all(engine: EndpointsEngine) -> AsyncIterator[TranslatorService]:
    """A translator on the fleet, once every endpoint has answered a probe."""
    async with serving(engine) as service:
        await with_retries(engine.controls)
        await until(lambda: not engine._probes.unanswered_endpoints(), "an answer of every endpoint")
        yield service


async def wait_until_reachable(*servers: RunningTriton) -> None:
    """Waits until all servers are reachable: channels notice a restart a moment after the supervisor."""
    for server in servers:
        engine = engine_on(server, name=MODEL_NAME)
        await with_retries(engine.ready, AntiphonError)
        await engine.close()


def reason_of(ran: Ran) -> str | None:
    final = ran.batches[-1].final
    assert final is not None
    return response.error_of(loads(final.body)).reason if final.status is Status.FAILED else None


# ---- a language model: two servers together give the text of one ----

# The model is sure of each letter. In a story the next word may depend on the last bit of a sum, which differs with the
# earlier computations of a server.
STORY = turn("Say the alphabet over and over, with commas: A, B, C, D,", temperature=0, max_output_tokens=100)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def language_servers() -> AsyncIterator[list[RunningTriton]]:
    """Two servers of the packaged model."""
    async with AsyncExitStack() as stack:
        starting = [stack.enter_async_context(smollm2_server(MODEL_NAME)) for _ in range(2)]
        yield list(await asyncio.gather(*starting))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def undisturbed(language_servers: list[RunningTriton]) -> Ran:
    async with serving(engine_on(language_servers[0], name=MODEL_NAME)) as service:
        ran = await run(service, named(STORY))
    assert ran.usage[1] == 100
    return ran


@pytest.mark.parametrize("deltas", volume([40], [1, 40]))
async def test_the_text_after_a_kill_in_mid_stream_equals_an_undisturbed_run(
    language_servers: list[RunningTriton], undisturbed: Ran, deltas: int, caplog: pytest.LogCaptureFixture
) -> None:
    engine, response_id = await story_through_a_kill(language_servers, undisturbed, deltas)
    for _ in range(TRIES - 1):
        if engine.migrations:  # 0: this process was delayed, and the kill came after the end of the story
            break
        engine, response_id = await story_through_a_kill(language_servers, undisturbed, deltas)
    assert engine.migrations == 1
    assert f"{response_id} moves to another endpoint after " in caplog.text


async def story_through_a_kill(
    language_servers: list[RunningTriton], undisturbed: Ran, deltas: int
) -> tuple[EndpointsEngine, str]:
    """Begins a story on the first server, kills that server, and has the second one finish the story."""
    first, second = language_servers
    await wait_until_reachable(first, second)
    engine, given = fleet_on(first, second), named(STORY)
    async with serving_all(engine) as service:
        ran = await run(service, given, {deltas: first.kill})
    assert ran.text == undisturbed.text
    assert ran.usage == undisturbed.usage
    assert (ran.record["status"], len(ran.record["output"])) == (undisturbed.record["status"], 1)
    language_servers.reverse()  # the restarting server is the last choice of the next run
    return engine, given.response_id


async def test_a_server_stopped_by_sigterm_finishes_its_turn(
    language_servers: list[RunningTriton], undisturbed: Ran
) -> None:
    first, second = language_servers
    await wait_until_reachable(first, second)
    async with serving_all(fleet_on(first, second)) as service:
        ran = await run(service, named(STORY), {20: lambda: first.signal(signal.SIGTERM)})
        assert (ran.text, ran.usage) == (undisturbed.text, undisturbed.usage)
        again = await run(service, named(STORY))
    assert (again.text, again.usage) == (undisturbed.text, undisturbed.usage)


# ---- scripted models: every signature, at every moment ----

TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all: it is warm, and the sun shines."
PIECES = [tokenizer().decode([token_id]) for token_id in tokenizer().encode(TEXT)]
LONG_TEXT = TEXT * 20
LONG = "long"
"""A model of ids that generates LONG_TEXT, which does not end before the kill."""
THREE_STEPS = "three_steps"
TEXTUAL = (*SIGNATURES[1:], THREE_STEPS)
EVERY = (MODEL_NAME, *TEXTUAL)
HI = turn("Hi", temperature=0, max_output_tokens=500)
SLOW_MS, QUICK_MS = 100.0, 30.0
THEN_SILENT = "/stall/10"
SILENT_S = 3.0
"""The timeout after which an engine is taken for silent. The healthy one has to be quicker, also on a busy machine."""
"""Stalls a server behind ten tokens, so that a generation cannot end before the fault, however busy the machine is."""


def scripted_models(*, delay_ms: float, obeys: bool) -> list[ScriptedModel]:
    """Models of every signature that generate TEXT, and the long one."""
    by_ids = ScriptedModel(MODEL_NAME, delay_ms=delay_ms, obeys=obeys, says=tokenizer().encode(TEXT))
    ensemble = ScriptedModel(THREE_STEPS, signature="ensemble", in_ensemble=True)
    return [
        by_ids,
        replace(ensemble, delay_ms=delay_ms / 4, obeys=obeys, says=[ord(letter) for letter in TEXT]),
        *(
            ScriptedModel(name, delay_ms=delay_ms, obeys=obeys, says=PIECES, signature=name)
            for name in SIGNATURES
            if name != MODEL_NAME
        ),
        replace(by_ids, name=LONG, says=tokenizer().encode(LONG_TEXT)),
    ]


@dataclass(frozen=True)
class Pair:
    """`bad` fails on request; `good` never fails."""

    bad: RunningTriton
    good: RunningTriton


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers() -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        made = (scripted_models(delay_ms=SLOW_MS, obeys=True), scripted_models(delay_ms=QUICK_MS, obeys=False))
        starting = (stack.enter_async_context(triton_server(*models)) for models in made)
        yield Pair(*await asyncio.gather(*starting))


@pytest_asyncio.fixture(loop_scope="module")
async def pair(servers: Pair) -> Pair:
    await wait_until_reachable(servers.bad, servers.good)
    return servers


@dataclass
class Outcome:
    """The result of one turn on a fleet."""

    ran: Ran
    engine: EndpointsEngine

    @property
    def said(self) -> str:
        return "".join(self.ran.deltas)

    def is_whole(self) -> bool:
        """Whether the turn ended as without a fault: one item with all of the text."""
        ended = self.ran.record["status"], reason_of(self.ran), len(self.ran.record["output"])
        return (self.said, *ended) == (TEXT, Status.COMPLETED.value, None, 1)

    def is_broken_off(self, error: type[AntiphonError]) -> bool:
        """Whether the turn failed with this error, and its text so far is in an incomplete item and counted."""
        (item,) = self.ran.record["output"] or [{"status": "incomplete"}]
        ended = self.ran.record["status"], reason_of(self.ran), item["status"]
        counted = self.ran.usage[1] == len(tokenizer().encode(self.said))
        is_prefix = LONG_TEXT.startswith(self.said)
        return counted and is_prefix and ended == (Status.FAILED.value, error.reason, "incomplete")


async def turn_on(
    pair: Pair, name: str, ending: str = "", happenings: Happenings = NOTHING, **limits: float
) -> Outcome:
    """Runs a turn that begins on the bad server."""
    engine = fleet_on(pair.bad, pair.good, name=name, **limits)
    async with serving_all(engine) as service:
        return Outcome(await run(service, named(HI, ending), happenings), engine)


async def turns_on(
    pair: Pair, ending: str = "", happenings: Happenings = NOTHING, **limits: float
) -> dict[str, Outcome]:
    """Runs turns of every signature concurrently. A happening takes place when all turns have reached its number of
    deltas."""
    arrived: Counter[int] = Counter()

    def arrive(number: int) -> None:
        arrived[number] += 1
        if arrived[number] == len(EVERY):
            happenings[number]()

    each = {number: partial(arrive, number) for number in happenings}
    outcomes = await asyncio.gather(*(turn_on(pair, name, ending, each, **limits) for name in EVERY))
    return dict(zip(EVERY, outcomes, strict=True))


async def test_a_kill_in_mid_stream_migrates_ids_and_fails_text_turns(pair: Pair) -> None:
    outcomes = await turns_on(pair, THEN_SILENT, {3: pair.bad.kill})
    assert outcomes[MODEL_NAME].is_whole()
    for name in TEXTUAL:
        assert outcomes[name].is_broken_off(EngineUnavailable), name
        assert len(outcomes[name].ran.deltas) >= 3
    assert [outcomes[name].engine.migrations for name in EVERY] == [1, 0, 0, 0, 0, 0]


async def test_a_kill_before_the_first_token_is_not_visible(pair: Pair) -> None:
    running = asyncio.create_task(turns_on(pair, "/stall/0"))
    async with asyncio.timeout(WAIT_MAX_S):
        while pair.bad.log_text().count("/stall/0") < len(EVERY):
            await asyncio.sleep(0.02)
    pair.bad.kill()
    outcomes = await running
    assert [name for name in EVERY if not outcomes[name].is_whole()] == []
    assert [outcomes[name].engine.migrations for name in EVERY] == [0] * len(EVERY)


async def test_a_timeout_before_the_first_token_is_not_visible(pair: Pair) -> None:
    outcomes = await turns_on(pair, "/stall/0", first_token_timeout_s=SILENT_S)
    assert [name for name in EVERY if not outcomes[name].is_whole()] == []


async def test_a_timeout_in_mid_stream_migrates_ids_and_fails_text_turns(pair: Pair) -> None:
    outcomes = await turns_on(pair, "/stall/5", token_timeout_s=SILENT_S)
    assert outcomes[MODEL_NAME].is_whole()
    for name in TEXTUAL:
        assert outcomes[name].is_broken_off(EngineTimeout), name


@pytest.mark.parametrize("tokens", [0, 5])
async def test_an_error_of_the_model_is_not_retried_on_another_endpoint(pair: Pair, tokens: int) -> None:
    ending = f"/fail/{tokens}"
    outcomes = await turns_on(pair, ending)
    for name in EVERY:
        assert outcomes[name].is_broken_off(EngineFault), name
        assert bool(outcomes[name].said) == bool(tokens)
    assert ending not in pair.good.log_text()


async def test_a_turn_without_endpoints_left_fails_with_its_text_so_far(pair: Pair) -> None:
    losses = {3: pair.bad.kill, 10: pair.good.kill}
    outcome = await turn_on(pair, LONG, happenings=losses)
    assert outcome.is_broken_off(EngineUnavailable)
    assert outcome.engine.migrations == 1
    assert len(outcome.ran.deltas) >= 10


async def test_a_dead_model_on_a_live_server_loses_no_turn(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """The server stays up, reports ready, and answers for its dead model. On a busy machine one Triton in twenty dies
    with the processes of its model, which tests nothing: then the test tries again."""
    for _ in range(5):
        caplog.clear()
        if await turns_around_a_dead_model(pair, caplog):
            return
    raise AssertionError("Triton died with its model each time")


async def turns_around_a_dead_model(pair: Pair, caplog: pytest.LogCaptureFixture) -> bool:
    """Returns whether the server outlived its model."""
    async with triton_server(*scripted_models(delay_ms=SLOW_MS, obeys=True)[:1]) as lone:
        await lone.leave_alone()
        engine = fleet_on(lone, pair.good, token_timeout_s=SILENT_S)
        async with serving_all(engine) as service:
            first = Outcome(await run(service, named(HI, THEN_SILENT), {3: lone.kill_stubs}), engine)
            if "closed the connection" in caplog.text:
                return False
            assert f"no next token within {SILENT_S:g} s" in caplog.text
            await wait_until_reachable(lone)
            await asyncio.sleep(EJECT_FIRST_S)
            # The first turn makes the engine probe the endpoint, and the next turn uses the endpoint.
            others = [Outcome(await run(service, named(HI)), engine)]
            await until(lambda: not any(each.is_ejected for each in engine._choice.endpoints), "it is in use again")
            others.append(Outcome(await run(service, named(HI)), engine))
            assert "lost the process that runs the model" in caplog.text
    assert [outcome.is_whole() for outcome in (first, *others)] == [True] * 3
    assert engine.migrations == 1
    return True


async def test_turns_do_not_wait_for_a_hanging_server(pair: Pair) -> None:
    """The connection is open and nothing answers: neither turns nor health checks wait for the server's timeouts."""
    engine = fleet_on(pair.bad, pair.good, token_timeout_s=SILENT_S, probe_timeout_s=120.0)
    async with serving_all(engine) as service:
        freeze = {3: lambda: pair.bad.signal(signal.SIGSTOP)}
        assert Outcome(await run(service, named(HI, THEN_SILENT), freeze), engine).is_whole()
        await asyncio.sleep(EJECT_FIRST_S)  # from here on the server may be tried again
        async with asyncio.timeout(WAIT_MAX_S):
            for _ in range(2):
                assert Outcome(await run(service, named(HI)), engine).is_whole()
                await service.ready()
        pair.bad.signal(signal.SIGCONT)
    assert engine.migrations == 1
