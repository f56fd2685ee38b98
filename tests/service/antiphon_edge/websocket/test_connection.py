from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import pytest

from antiphon_core import events
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.limits import STREAM_WAITING_BYTES_MAX
from antiphon_edge.operations.parameters import SESSION
from antiphon_edge.websocket.lanes import Phase
from antiphon_edge.websocket.outbox import LaneQueue
from antiphon_store.service import StoreService
from tests.support.edge import RunningEdge, running_edge
from tests.support.socket_client import Client, connected, held_responses, until_lanes
from tests.support.waiting import WAIT_MAX_S


@pytest.fixture
async def client(edge: RunningEdge) -> AsyncIterator[Client]:
    async with connected(edge) as client:
        yield client


async def cancel(client: Client, **members: Any) -> None:
    await client.socket.send_json({"type": "response.cancel"} | members)


async def ends(client: Client, number: int) -> list[Object]:
    """The events until `number` responses have ended."""
    told: list[Object] = []
    for _ in range(number):
        told += await client.until(*events.TERMINAL)
    return told


def of_lane(told: list[Object], lane: str | None) -> list[Object]:
    return [event for event in told if event.get("stream_id") == lane]


async def begin_on(client: Client, *lanes: str | None, **members: Any) -> dict[str | None, str]:
    """Starts a response on each lane and returns their ids, by lane."""
    for lane in lanes:
        await client.send(**({} if lane is None else {"stream_id": lane}), **members)
    ids: dict[str | None, str] = {}
    while len(ids) < len(lanes):
        event = await client.event()
        if event["type"] == events.CREATED:
            ids[event.get("stream_id")] = event["response"]["id"]
    return ids


async def test_responses_of_different_lanes_run_at_once_and_name_their_lane(edge: RunningEdge, client: Client) -> None:
    release = held_responses(edge)
    ids = await begin_on(client, "a", None, "b")  # all have begun, and none has ended
    release.set()
    told = await ends(client, 3)
    for lane, response_id in ids.items():
        (*_, last) = of_lane(told, lane)
        assert (last["type"], last["response"]["id"]) == (events.COMPLETED, response_id)
        assert "stream_id" not in last["response"]
    assert all("stream_id" not in event for event in of_lane(told, None))


async def test_responses_of_one_lane_run_one_after_the_other(client: Client) -> None:
    for lane in ("a", "a", None, None):
        await client.send(**({} if lane is None else {"stream_id": lane}))
    told = await ends(client, 4)
    for lane in ("a", None):
        numbers = [event["sequence_number"] for event in of_lane(told, lane)]
        assert numbers == [*range(len(numbers) // 2)] * 2


async def test_lane_beyond_the_limit_waits_until_another_ends() -> None:
    async with running_edge(websocket_lanes=2) as edge, connected(edge) as client:
        release = held_responses(edge)
        await begin_on(client, "a", "b")
        await client.send(stream_id="c")
        await until_lanes(edge, lambda lanes: bool(lanes._waiting))
        assert len(edge.translator.turns) == 2
        release.set()
        assert {event["stream_id"] for event in await ends(client, 3)} == {"a", "b", "c"}


async def test_a_lane_is_cancelled_and_the_others_go_on(edge: RunningEdge, client: Client) -> None:
    release = held_responses(edge)
    ids = await begin_on(client, "a", "b", store=True)
    await client.send(stream_id="a", input="next")  # waits behind the response that is cancelled
    await cancel(client, stream_id="a")
    refusal = (await client.until(events.ERROR))[-1]
    assert (refusal["stream_id"], refusal["error"]["code"]) == ("a", "response_cancelled")
    assert ids["a"] in refusal["error"]["message"]
    release.set()
    told = await ends(client, 2)
    assert of_lane(told, "b")[-1]["response"]["id"] == ids["b"]
    assert of_lane(told, "a")[-1]["type"] == events.COMPLETED
    await edge.server._turns.settle()
    assert (await edge.ask("GET", f"/v1/responses/{ids['a']}")).json["status"] == "cancelled"
    assert (await edge.ask("GET", f"/v1/responses/{ids['b']}")).json["status"] == "completed"


async def test_a_cancel_that_comes_before_its_response_has_begun_frees_the_lane(client: Client) -> None:
    await client.send()
    await cancel(client)  # the server reads both messages at once
    assert (await client.until(events.ERROR))[-1]["error"]["code"] == "response_cancelled"
    assert (await client.ask())["status"] == "completed"


async def test_response_can_be_continued_again_after_a_cancelled_turn(edge: RunningEdge, client: Client) -> None:
    first = await client.ask()
    release = held_responses(edge)
    await begin_on(client, None, previous_response_id=first["id"])
    await cancel(client)
    assert (await client.until(events.ERROR))[-1]["error"]["code"] == "response_cancelled"
    release.set()
    assert (await client.ask(previous_response_id=first["id"]))["status"] == "completed"


async def test_a_cancel_that_comes_too_late_is_not_answered(edge: RunningEdge, client: Client) -> None:
    first = await client.ask(stream_id="a")
    await cancel(client, stream_id="a")
    release = held_responses(edge)
    await begin_on(client, "a")
    await cancel(client, stream_id="a", response_id=first["id"])
    release.set()
    assert {event["type"] for event in await ends(client, 1)}.isdisjoint({events.ERROR})


@pytest.mark.parametrize("generate", [True, False])
async def test_a_cancel_while_the_record_is_stored_comes_too_late(
    edge: RunningEdge, client: Client, generate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_turn, storing, release = StoreService.commit_turn, asyncio.Event(), asyncio.Event()

    async def held(*args: Any, **kwargs: Any) -> Any:
        storing.set()
        await release.wait()
        return await commit_turn(*args, **kwargs)

    monkeypatch.setattr(StoreService, "commit_turn", held)
    await client.send(stream_id="a", store=True, generate=generate)
    async with asyncio.timeout(WAIT_MAX_S):
        await storing.wait()
    await cancel(client, stream_id="a")
    await client.socket.send_str("no JSON")
    told = await client.until(events.ERROR)  # the server has read the cancel before this message
    assert told[-1].get("stream_id") is None
    release.set()
    told += await ends(client, 1)
    assert told[-1]["type"] == events.COMPLETED
    assert "response_cancelled" not in str(told)
    record = await edge.ask("GET", f"/v1/responses/{told[-1]['response']['id']}")
    assert record.json["status"] == "completed"


async def test_a_fork_on_another_lane_that_fails_leaves_the_response(client: Client) -> None:
    first = await client.ask(stream_id="a")
    await client.send(stream_id="b", previous_response_id=first["id"], model="other")
    assert (await client.until(events.ERROR))[-1]["error"]["code"] == "model_not_found"
    assert (await client.ask(stream_id="a", previous_response_id=first["id"]))["status"] == "completed"


async def test_a_connection_of_a_session_runs_one_turn_at_a_time(edge: RunningEdge) -> None:
    async with connected(edge, headers={SESSION.name: "s"}) as client:
        for lane in ("a", "b"):
            await client.send(stream_id=lane, store=True)
        told = await ends(client, 2)
        assert [event["stream_id"] for event in told] == sorted(event["stream_id"] for event in told)
        assert len(loads(edge.translator.turns[1].history)) == 2


async def test_each_additional_lane_holds_a_stream_slot_of_its_tenant() -> None:
    async with running_edge(streams_per_tenant=2) as edge, connected(edge) as client:  # the connection holds one slot
        release = held_responses(edge)
        await begin_on(client, "a", "b")
        await client.send(stream_id="c")
        refusal = (await client.until(events.ERROR))[-1]
        assert (refusal["stream_id"], refusal["status"]) == ("c", 429)
        release.set()
        await ends(client, 2)
        await until_lanes(edge, lambda lanes: lanes.phase is Phase.IDLE)
        await begin_on(client, "c", "a")


async def test_shutting_down_waits_for_every_lane(edge: RunningEdge) -> None:
    async with running_edge() as edge, connected(edge) as client:
        release = held_responses(edge)
        await begin_on(client, "a", "b")
        stopping = asyncio.create_task(edge.server.stop())
        await until_lanes(edge, lambda lanes: lanes.phase is Phase.LAST)
        await client.send(stream_id="late")
        await until_lanes(edge, lambda lanes: bool(lanes._waiting))
        release.set()
        assert {event["type"] for event in await ends(client, 2)} >= {events.COMPLETED}
        late = await client.event()
        assert (late["status"], late["stream_id"]) == (503, "late")
        assert await client.close_code() == aiohttp.WSCloseCode.GOING_AWAY
        await stopping


async def test_a_client_that_goes_away_stops_every_lane(edge: RunningEdge) -> None:
    ended: list[str] = []
    play = edge.translator.generate

    async def generate(turn: Any, *arguments: Any, **options: Any) -> None:
        try:
            await play(turn, *arguments, **options)
        finally:
            ended.append(turn.response_id)

    edge.translator.generate = generate  # type: ignore[method-assign]
    edge.translator.hang = True
    async with connected(edge) as client:
        ids = await begin_on(client, "a", "b")
        assert not ended
    async with asyncio.timeout(30):
        while len(ended) < 2:
            await asyncio.sleep(0.005)
    assert sorted(ended) == sorted(ids.values())


async def test_a_slow_reader_bounds_the_memory_of_all_lanes_together() -> None:
    async with running_edge(write_timeout_s=300) as edge, connected(edge) as client:
        edge.translator.words = ["x" * 20_000] * 100
        client.transport.pause_reading()
        for number in range(8):
            await client.send(stream_id=f"lane-{number}")
        (connection,) = edge.server._sockets._open
        await until_lanes(edge, lambda lanes: len(lanes.running) == 8)
        async with asyncio.timeout(60):
            while len(connection._outbox._paused) < 8:
                await asyncio.sleep(0.005)
        assert connection._outbox._bytes < STREAM_WAITING_BYTES_MAX + 8 * 100_000  # and one batch of each lane
        client.transport.resume_reading()
        assert len({event["stream_id"] for event in await ends(client, 8)}) == 8


async def test_lane_begins_no_turn_before_its_last_messages_are_sent(edge: RunningEdge, client: Client) -> None:
    await client.ask()
    (connection,) = edge.server._sockets._open
    send, release = connection._send, asyncio.Event()

    async def held(messages: Sequence[bytes]) -> None:
        if messages:  # the reader of messages sends none
            await release.wait()
        await send(messages)

    connection._send = held  # type: ignore[method-assign]
    for _ in range(2):
        await client.send(stream_id="a")
    await until_lanes(edge, lambda lanes: any(turn.has_ended for turn in lanes.running.values()))
    assert len(edge.translator.turns) == 2
    release.set()
    assert [event["type"] for event in await ends(client, 2)].count(events.COMPLETED) == 2


async def test_nothing_begins_while_the_client_has_too_much_to_read(edge: RunningEdge, client: Client) -> None:
    await client.ask()
    (connection,) = edge.server._sockets._open
    held = LaneQueue(connection._outbox)
    send, release = connection._send, asyncio.Event()

    async def slow(messages: Sequence[bytes]) -> None:
        if messages:
            await release.wait()
        await send(messages)

    connection._send = slow  # type: ignore[method-assign]
    held.put([dumps("x" * STREAM_WAITING_BYTES_MAX)])
    await client.send(stream_id="a")
    await until_lanes(edge, lambda lanes: bool(lanes.running))
    await asyncio.sleep(0)
    assert len(edge.translator.turns) == 1
    release.set()
    assert len(await client.event()) == STREAM_WAITING_BYTES_MAX
    assert (await ends(client, 1))[-1]["type"] == events.COMPLETED


async def test_lane_with_much_output_does_not_block_another(edge: RunningEdge, client: Client) -> None:
    edge.translator.words = ["x" * 30_000] * 100
    await client.send(stream_id="much")
    await client.until(events.OUTPUT_TEXT_DELTA)
    edge.translator.words = ["y"]
    await client.send(stream_id="little")
    told = await ends(client, 1)
    assert told[-1]["stream_id"] == "little"
    assert (await ends(client, 1))[-1]["stream_id"] == "much"
