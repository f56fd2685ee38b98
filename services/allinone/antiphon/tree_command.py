"""`antiphon tree ID`: shows the tree of a response."""

from __future__ import annotations

import argparse
import asyncio

from antiphon.talk import api, tree_text
from antiphon.talk.api import Api
from antiphon_core.jsons import Object

TEXTS_MAX = 200  # the most responses whose texts are fetched


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="a response")
    parser.add_argument("--below", action="store_true", help="show only the responses below this one")
    parser.add_argument("--ids-only", action="store_true", help="show no text of the responses")
    api.declare(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    print(asyncio.run(tree(options.url, options.id, from_root=not options.below, with_texts=not options.ids_only)))
    return 0


async def tree(base_url: str, response_id: str, *, from_root: bool = True, with_texts: bool = True) -> str:
    """The tree as text. ApiError: there is no such response, or the server cannot be reached."""
    async with Api.open(base_url) as server:
        nodes = await server.nodes(response_id, from_root=from_root)
        texts = await _texts(server, nodes) if with_texts else {}
        return "\n".join(tree_text.lines(nodes, marked=response_id, texts=texts))


async def _texts(server: Api, nodes: list[Object]) -> dict[str, str]:
    """The texts of the first TEXTS_MAX responses that have ended, by id."""
    shown = [node["id"] for node in nodes if node["status"] in ("completed", "incomplete")][:TEXTS_MAX]
    responses = await asyncio.gather(*(server.get(f"/responses/{response_id}") for response_id in shown))
    return {response["id"]: tree_text.output_text(response) for response in responses}
