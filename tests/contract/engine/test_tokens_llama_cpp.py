"""The token-level model on llama.cpp."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from antiphon_core.jsons import loads
from antiphon_core.ports.translator import EndedTurn
from antiphon_core.sealing_keys import SealingKeys
from antiphon_edge.cache_salts import CacheSalts, SaltingTranslator
from antiphon_local_triton.repository import MODEL_NAME
from antiphon_translator.engines import metrics_page, replica_metrics
from antiphon_translator.engines.replica_metrics import ReplicaMetrics
from tests.contract.engine.tokens_suite import CONTEXT_LENGTH, TokensContract, asked
from tests.engines.token_servers import llama_cpp_server
from tests.support.pushed import generated
from tests.support.served_models import turn
from tests.support.token_client import TokenClient
from tests.support.triton import RunningTriton
from tests.support.turns import engine_on, named, run, serving
from tests.support.waiting import WAIT_MAX_S

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[RunningTriton]:
    async with llama_cpp_server(CONTEXT_LENGTH) as running:
        yield running


class TestLlamaCpp(TokensContract):
    """All of the suite."""


async def test_load_of_the_model_is_among_the_metrics_of_triton(server: RunningTriton) -> None:
    async def load() -> ReplicaMetrics:
        page = await metrics_page.fetch("127.0.0.1", server.metrics_port, timeout_s=WAIT_MAX_S)
        return replica_metrics.read(page, MODEL_NAME)

    async def generate() -> None:
        while True:
            await client.generate(asked("Tell me a story."), 200)

    client = TokenClient(server.grpc_address)
    generating = asyncio.create_task(generate())
    try:
        while (await load()).running != 1:
            pass
    finally:
        generating.cancel()
        await asyncio.wait({generating})
        await client.close()
    while await load() != ReplicaMetrics(running=0, waiting=0):
        pass


async def test_tenants_share_no_cached_prompt_and_one_tenant_its_own(server: RunningTriton) -> None:
    engine = engine_on(server, name=MODEL_NAME, kv_isolation="tenant")
    async with serving(engine, isolates_tenants=True) as service:
        translator = SaltingTranslator(service, CacheSalts(SealingKeys.ephemeral()))
        await translator.ready()

        async def cached_tokens(tenant: str) -> int:
            turn_of_tenant = named(replace(turn("Tell me of Paris. " * 20, max_output_tokens=2), tenant=tenant))
            batches = [batch async for batch in generated(translator, turn_of_tenant)]
            assert batches[-1].final is not None
            return int(loads(batches[-1].final.body)["usage"]["input_tokens_details"]["cached_tokens"])

        found = [await cached_tokens(tenant) for tenant in ("acme", "globex", "acme", "globex")]
    assert found[:2] == [0, 0]
    assert min(found[2:]) > 20


CAREFUL = "You are a careful assistant. Answer in a few words. "


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        (CAREFUL * 4, CAREFUL * 3 + "Be quick.", "instructions"),
        (CAREFUL * 3 + "It is 10:00:01. " + CAREFUL, CAREFUL * 3 + "It is 10:00:59. " + CAREFUL, "time"),
        (CAREFUL * 4, CAREFUL * 4, "input"),
    ],
)
async def test_first_difference_is_where_the_servers_cache_ends(
    server: RunningTriton, before: str, after: str, cause: str
) -> None:
    async with serving(engine_on(server, name=MODEL_NAME)) as service:
        await service.ready()

        async def ended(instructions: str, text: str) -> EndedTurn:
            given = named(turn(text, instructions=instructions, max_output_tokens=2))
            final = [batch async for batch in generated(service, given)][-1].final
            assert final is not None
            return EndedTurn(given, final.output_items, final.lineage)

        first = await ended(before, "Where is Rome?")
        now = await ended(after, "Where is Oslo?" if cause == "input" else "Where is Rome?")
        report = loads(await service.explain_cache(now, first))
    found = report["comparison"]["first_difference"]
    assert found["cause"] == cause
    assert abs(report["cached_tokens"] - found["token"]) <= 1
    assert found["token"] > 20


async def test_tenants_that_are_not_isolated_share_cached_prompts(server: RunningTriton) -> None:
    async with serving(engine_on(server, name=MODEL_NAME)) as service:
        for tenant, has_cached in (("initech", False), ("umbrella", True)):
            turn_of_tenant = named(
                replace(turn("Tell me of Rome. " * 20, max_output_tokens=2), tenant=tenant, cache_salt=tenant)
            )
            usage = (await run(service, turn_of_tenant)).record["usage"]
            assert (usage["input_tokens_details"]["cached_tokens"] > 20) is has_cached
