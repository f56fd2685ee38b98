"""`make engines`: runs the suite of the token-level model on each engine that runs on a CPU, measures it, and writes
docs/reference/token-models.md. Ends with 1 if a test failed. `--engine NAME` leaves the columns of the others as they
are."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from xml.etree import ElementTree as ET

import grpc.aio
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.contract.engine.tokens_suite import asked
from tests.engines.token_servers import SERVERS
from tests.support.token_client import Answer, TokenClient
from tests.support.triton import RunningTriton

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/token-models.md"
SUITES = {
    "llama_cpp": "tests/contract/engine/test_tokens_llama_cpp.py",
    "vllm": "tests/engines/vllm_on_triton.py",
}
CONTEXT_LENGTH = 2_048
TRIES = 5
TOKENS = 100
STORY = "Tell me a long story of a city and its river. "
_READY = re.compile(r"tensorrt_llm: (.+) is ready")
_HEAD = """# Token-level models on real engines

Written by `make engines`, which runs the models of `antiphon triton-models` in a real Triton on the CPU, with
SmolLM2-135M. The suite is that of `tests/contract/engine/tokens_suite.py`. Times are medians of {tries} runs, and those
of this machine: they tell a cached prompt from a new one, and nothing of a GPU.

"""
_NOTES = """
Cached tokens are those that the engine reports. llama.cpp reads the last token of a prompt again, for its logits; vLLM
caches whole blocks, of 128 tokens on a CPU. TensorRT-LLM needs a GPU: its adapter runs in the same Triton, with a stub
in the place of the library
([what was run, and what was not](../howto/triton-token-models.md#what-was-run-and-what-was-not)).
"""

Figures = Mapping[str, str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=SERVERS, action="append")
    chosen = parser.parse_args().engine or list(SERVERS)
    found = _read_page()
    failed = 0
    for name in chosen:
        suite, failures = _run_suite(name)
        failed += failures
        found[name] = {"Suite": suite, **asyncio.run(_measure_engine(name))}
        for row, value in found[name].items():
            print(f"{name}: {row}: {value}", flush=True)
    PAGE.write_text(_page(found), "utf-8")
    return int(failed > 0)


def _run_suite(name: str) -> tuple[str, int]:
    """How many tests of the suite passed, and how many did not."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-n", "0", "-q", SUITES[name], f"--junitxml={report}"]
        subprocess.run(command, cwd=ROOT, check=False)
        (suite,) = ET.parse(report).getroot().iter("testsuite")
    total = int(suite.attrib["tests"])
    failed = sum(int(suite.attrib[kind]) for kind in ("failures", "errors", "skipped"))
    return f"{total - failed} of {total} passed", failed


async def _measure_engine(name: str) -> Figures:
    began_s = time.monotonic()
    async with SERVERS[name](CONTEXT_LENGTH) as server:
        started_s = time.monotonic() - began_s
        client = TokenClient(server.grpc_address)
        try:
            return {
                "Engine": _READY.findall(server.log_text())[-1],
                "Triton": await _triton_version(server),
                "Machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
                "Start, until it is ready": f"{started_s:.0f} s",
                **await _caching(client),
                **await _prefills(client),
                **await _speeds(client),
                "Ids generated behind a cancellation": str(await _ids_behind_cancellation(client, server)),
            }
        finally:
            await client.close()


async def _triton_version(server: RunningTriton) -> str:
    async with grpc.aio.insecure_channel(server.grpc_address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        return str((await stub.ServerMetadata(service_pb2.ServerMetadataRequest())).version)


async def _caching(client: TokenClient) -> Figures:
    """Cached tokens of a chain of turns, of a fork of it, and of the same prompt under another salt."""
    first = asked(STORY * 40)
    answer = await _asked(client, first, 8, "chain")
    second = [*first, *answer.ids, *asked("And then? " * 20)]
    turns = [await _asked(client, prompt, 8, salt) for prompt, salt in ((second, "chain"), (second, "other"))]
    fork = [*first, *asked("Another end, please. " * 10)]
    turns.append(await _asked(client, fork, 8, "chain"))
    shown = [_cached(*pair) for pair in zip((second, second, fork), turns, strict=True)]
    return dict(zip(("Cached in the second turn", "Cached under another salt", "Cached in a fork"), shown, strict=True))


def _cached(prompt: list[int], answer: Answer) -> str:
    return f"{answer.outputs['cached_tokens'][-1][0]} of {len(prompt)}"


async def _prefills(client: TokenClient) -> Figures:
    """Prefill of a prompt that is new, and of the same one again; and the wait in the queue of both."""
    new, again, queue = list[float](), list[float](), list[float]()
    for number in range(TRIES):
        prompt = asked(f"{number}. {STORY * 40}")
        for found in (new, again):
            answer = await _asked(client, prompt, 1, f"prefill {number}")
            found.append(answer.outputs["prefill_ns"][-1][0] / 1e6)
            queue.append(answer.outputs["queue_ns"][-1][0] / 1e6)
    length = len(asked(f"0. {STORY * 40}"))
    return {
        f"Prefill of {length} tokens, new": f"{median(new):.0f} ms",
        "Prefill of the same prompt again": f"{median(again):.1f} ms",
        "Wait in the queue, alone": f"{median(queue):.2f} ms",
    }


async def _speeds(client: TokenClient) -> Figures:
    found = {}
    for streams in (1, 4):
        rates = []
        for _ in range(TRIES):
            began_s = time.monotonic()
            asking = (client.generate(asked(STORY), TOKENS, min_tokens=TOKENS) for _ in range(streams))
            answers = await asyncio.gather(*asking)
            rates.append(sum(len(answer.ids) for answer in answers) / (time.monotonic() - began_s))
        found[f"Tokens a second, {streams} stream{'s' * (streams > 1)}"] = f"{median(rates):.0f}"
    return found


async def _ids_behind_cancellation(client: TokenClient, server: RunningTriton) -> int:
    """The ids that the model generated beyond those that had arrived when the client cancelled: the least of all."""
    found = []
    for number in range(TRIES):
        answer = await client.cancelled_after(5, asked(STORY), 800, id=f"cancelled-{number}")
        found.append(await server.tokens_when_cancelled(f"cancelled-{number}") - len(answer.ids))
    return min(found)


async def _asked(client: TokenClient, prompt: list[int], tokens_max: int, salt: str) -> Answer:
    return await client.generate(prompt, tokens_max, cache_salt=salt, return_perf_metrics=True)


def _read_page() -> dict[str, Figures]:
    """The figures of the page so far, by the name of their engine."""
    if not PAGE.exists():
        return {}
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
    head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: {row[0]: row[at] for row in body if row[at] != "-"} for at, name in enumerate(head) if at}


def _page(found: Mapping[str, Figures]) -> str:
    names = [name for name in SERVERS if name in found]
    rows = list(dict.fromkeys(row for name in names for row in found[name]))
    lines = [["", *names], ["---"] * (len(names) + 1)]
    lines += [[row, *(found[name].get(row, "-") for name in names)] for row in rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{_HEAD.format(tries=TRIES)}{table}\n{_NOTES}"


if __name__ == "__main__":
    sys.exit(main())
