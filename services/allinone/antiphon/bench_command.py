"""`antiphon bench`: time to first token and tokens per second of any Responses server.

The exit status is 1 if a request failed.
"""

from __future__ import annotations

import argparse
import asyncio

from antiphon.progress import ProgressLine
from antiphon.talk import api, load
from antiphon.talk.api import Api
from antiphon_core.jsons import Object

PROMPT = "Tell me a long story about a lighthouse."


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", nargs="?", metavar="URL", help="the server's base URL, instead of --url")
    parser.add_argument("--model", help="the model (default: the first that the server lists)")
    parser.add_argument("--requests", type=_positive, default=32, metavar="N", help="how many requests (default 32)")
    parser.add_argument("--concurrency", type=_positive, default=4, metavar="N", help="how many at once (default 4)")
    parser.add_argument(
        "--max-output-tokens", type=_positive, default=128, metavar="N", help="of each request (default 128)"
    )
    parser.add_argument("--prompt", default=PROMPT, help="the input of each request")
    parser.add_argument("--store", action="store_true", help="have the responses stored")
    api.declare(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    result = asyncio.run(_measure(options))
    print(*result.lines(), sep="\n")
    return 0 if len(result.completed_samples) == len(result.samples) else 1


async def _measure(options: argparse.Namespace) -> load.Result:
    async with Api.open(options.server or options.url) as server:
        body: Object = {
            "model": options.model or (await server.models())[0],
            "input": options.prompt,
            "max_output_tokens": options.max_output_tokens,
            "store": options.store,
        }
        progress = ProgressLine("requests")
        try:
            return await load.run(
                server, body, requests=options.requests, concurrency=options.concurrency, on_done=progress
            )
        finally:
            progress.end()


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return int(text)
