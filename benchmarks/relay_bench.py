"""Measures the cost of a streamed token on its way through the whole gateway, and the time to the first token.

One process runs edge, translator and a store in memory. The engine plays ids from a script, and the client is another
process. The baseline is a bare aiohttp handler that writes equal frames one by one. Figures are processor time of the
serving process, so a busy machine changes them little.

    python -m benchmarks.relay_bench
"""

from __future__ import annotations

import asyncio
import time

from aiohttp import web

from antiphon_core.flow import Flow
from antiphon_core.jsons import dumps
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.scripted import ScriptedEngine
from antiphon_translator.generation import GenerationRequest, TokenChunk
from tests.support.in_process import running
from tests.support.served_models import END_ID, model, tokenizer

TOKENS = 2_000
RUNS = 7
FRAME = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":" word"}\n\n'


class FastEngine(ScriptedEngine):
    """An engine that emits its ids `together` at a time, with a turn of the event loop between two batches."""

    def __init__(self, together: int) -> None:
        super().__init__([])
        words = tokenizer().encode("Once upon a time there was a small town by the sea. ")
        self._ids = (words * (TOKENS // len(words) + 1))[:TOKENS]
        self._together = together

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        for start in range(0, TOKENS, self._together):
            await asyncio.sleep(0)
            await flow.wait_until_open()
            deliver([TokenChunk((token,)) for token in self._ids[start : start + self._together]])
        deliver([TokenChunk((END_ID,))])


async def read_all(url: str, body: bytes) -> None:
    """Sends one streamed request from another process and discards the answer."""
    client = await asyncio.create_subprocess_exec("curl", "-sN", "-o", "/dev/null", "-d", body, url)
    assert await client.wait() == 0


async def cost_us(url: str, body: bytes) -> float:
    """Returns the processor time of this process for one token of a stream, in microseconds: the best of some runs."""
    costs = []
    for _ in range(RUNS):
        started = time.process_time()
        await read_all(url, body)
        costs.append((time.process_time() - started) / TOKENS * 1e6)
    return min(costs)


async def bare() -> float:
    async def stream(request: web.Request) -> web.StreamResponse:
        await request.read()
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for _ in range(TOKENS):
            await asyncio.sleep(0)
            await answer.write(FRAME)
        return answer

    app = web.Application()
    app.router.add_post("/", stream)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    cost = await cost_us(f"http://127.0.0.1:{port}/", b"{}")
    await runner.cleanup()
    return cost


async def gateway(together: int) -> float:
    async with running((model(), FastEngine(together))) as system:
        body = dumps({"model": "m", "input": "Tell me a story.", "stream": True})
        return await cost_us(f"{system.url}/v1/responses", body)


async def main() -> None:
    baseline = await bare()
    print(f"\nProcessor time per streamed token, {TOKENS} tokens, best of {RUNS}")
    print(f"  aiohttp writing ready frames         {baseline:6.1f} us   1.0 x")
    for together in (1, 4, 16):
        cost = await gateway(together)
        print(f"  whole gateway, {together:2} ids at a time      {cost:6.1f} us  {cost / baseline:4.1f} x")


if __name__ == "__main__":
    asyncio.run(main())
