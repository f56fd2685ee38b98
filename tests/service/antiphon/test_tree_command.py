from __future__ import annotations

import asyncio

import pytest

from antiphon.cli import main
from antiphon.talk.api import Api


async def grow(base_url: str) -> tuple[str, str]:
    async with Api.open(base_url) as server:
        root = await server.post("/responses", {"model": "m", "input": "Hi"})
        child = await server.post("/responses", {"model": "m", "input": "Hi", "previous_response_id": root["id"]})
        return root["id"], child["id"]


def test_a_tree_is_shown_from_its_root(base_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    root, child = asyncio.run(grow(base_url))
    assert main(["tree", child, "--url", base_url]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"● {root}  Hello there, friend.",
        f"  ● {child}  Hello there, friend.  ◀ here",
    ]
    assert main(["tree", child, "--url", base_url, "--below", "--ids-only"]) == 0
    assert capsys.readouterr().out == f"● {child}  ◀ here\n"


def test_tree_of_an_unknown_response_exits_1_with_its_id(base_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tree", "resp_none", "--url", base_url]) == 1
    assert "resp_none" in capsys.readouterr().err
