"""Turns in a session get ids of the tree that they continue."""

from __future__ import annotations

import pytest

from antiphon_core.ids import RandomIds, new_conversation_id, tree_tag
from antiphon_edge.turns.turn_starter import session_tree
from tests.support.edge import running_edge

HEADER = "x-antiphon-session"


async def test_the_id_of_a_conversation_names_the_tree_of_its_responses() -> None:
    conversation_id = new_conversation_id(RandomIds())
    async with running_edge() as edge:
        assert await session_tree(edge.store, "default", conversation_id) == tree_tag(conversation_id)


async def test_the_tree_of_a_session_without_a_turn_follows_from_its_name_and_tenant() -> None:
    async with running_edge() as edge:
        mine = await session_tree(edge.store, "default", "mine")
        assert await session_tree(edge.store, "default", "mine") == mine
        others = {await session_tree(edge.store, *each) for each in (("default", "yours"), ("other", "mine"))}
        assert len({mine} | others) == 3


@pytest.mark.parametrize("key", [None, "key"])
async def test_session_with_a_clients_own_name_stays_in_one_tree(key: str | None) -> None:
    async with running_edge() as edge:
        made = []
        for number in range(3):
            headers = {HEADER: "mine"} | ({} if key is None else {"Idempotency-Key": f"{key}{number}"})
            answer = await edge.ask("POST", "/v1/responses", {"model": "m", "input": f"{number}"}, headers=headers)
            assert answer.status == 200, answer.body
            made.append(answer.json["id"])
        assert len({tree_tag(each) for each in made}) == 1
        assert len(edge.translator.turns) == 3
        chain = (await edge.ask("GET", f"/v1/responses/{made[-1]}/chain")).json["data"]
        assert [each["id"] for each in chain] == made


async def test_fork_stays_in_the_tree_of_its_original_session() -> None:
    async with running_edge() as edge:
        body = {"model": "m", "input": "Hi"}
        first = await edge.ask("POST", "/v1/responses", body, headers={HEADER: "mine"})
        await edge.ask("POST", "/v1/sessions/mine/fork", {"new_session_id": "other"})
        second = await edge.ask("POST", "/v1/responses", body, headers={HEADER: "other"})
        assert second.status == 200, second.body
        assert tree_tag(first.json["id"]) == tree_tag(second.json["id"])
