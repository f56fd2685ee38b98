from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import (
    ConversationNotFound,
    IdempotencyMismatch,
    InvalidRequest,
    ItemNotFound,
    PreviousResponseNotFound,
    SessionLocked,
    StoreUnavailable,
    Timeout,
    TooLarge,
)
from antiphon_core.ids import RandomIds, new_conversation_id, tree_tag
from antiphon_core.items import normalise_input
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.offload import INLINE_BYTES_MAX
from antiphon_core.ports.store import Fence, Record, Status, TurnCommit, TurnRequest, TurnStart
from antiphon_core.request.body import CreateRequest
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.turns import turn_starter
from antiphon_edge.turns.accepted_turn import AcceptedTurn, RepeatedRequest
from antiphon_edge.turns.turn_starter import TurnStarter
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService

TENANT = "t"
OUTPUT = b'[{"id":"msg_said","type":"message","role":"assistant","content":[{"type":"output_text","text":"yes"}]}]'


class Slow:
    """A store whose beginnings take until `go`, counting the calls of all operations."""

    def __init__(self, store: StoreService) -> None:
        self._store = store
        self.go = asyncio.Event()
        self.go.set()
        self.calls: list[str] = []
        self.error: Exception | None = None

    async def ready(self) -> None:
        if self.error is not None:
            raise self.error

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._store, name)

    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        self.calls.append("begin_turn")
        start = await self._store.begin_turn(tenant, request)
        await self.go.wait()
        return start


class Desk:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.backend = row_backend("memory://", clock=self.clock)
        self.store = StoreService(self.backend)
        self.slow = Slow(self.store)
        sealer = Sealer.of(None, ttl_s=10, clock=self.clock)
        slow: Any = self.slow
        self.starter = TurnStarter(slow, clock=self.clock, ids=RandomIds(), sealer=sealer)

    async def ask(
        self, *, session_id: str | None = None, key: str | None = None, **members: Any
    ) -> AcceptedTurn | RepeatedRequest:
        request = CreateRequest.parse(dumps({"model": "m", "input": "hi"} | members))
        return await self.starter.begin(TENANT, request, session_id=session_id, key=key)

    async def begin(self, **options: Any) -> AcceptedTurn:
        begun = await self.ask(**options)
        assert isinstance(begun, AcceptedTurn)
        return begun

    async def commit(self, begun: AcceptedTurn) -> Record:
        record = begun.record(Status.COMPLETED, b"{}", OUTPUT)
        fence = begun.lease.fence if begun.lease is not None else None
        await self.store.commit_turn(TENANT, TurnCommit(record, fence=fence, idempotency_key=begun.key))
        return await self.store.get(TENANT, record.id)

    async def conversation(self) -> str:
        conversation_id = new_conversation_id(RandomIds())
        await self.store.create_conversation(TENANT, conversation_id=conversation_id)
        return conversation_id


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    await desk.backend.open()
    yield desk
    await desk.starter.cleanup.settle()
    await desk.backend.close()


def texts(items: bytes) -> list[str]:
    return [item["content"][0]["text"] for item in loads(items)]


async def test_a_turn_without_a_past_needs_no_store(desk: Desk) -> None:
    begun = await desk.begin(store=False)
    assert desk.slow.calls == []
    assert (begun.keep, begun.parent_id, begun.lease, begun.logged) == (False, None, None, False)
    assert (begun.turn.history, texts(begun.turn.input)) == (b"[]", ["hi"])
    assert "input" not in loads(begun.turn.request)


async def test_a_chain_has_its_past_in_one_round_trip(desk: Desk) -> None:
    first = await desk.commit(await desk.begin(input="one"))
    desk.slow.calls.clear()
    begun = await desk.begin(input="two", previous_response_id=first.id)
    assert desk.slow.calls == ["begin_turn"]
    assert texts(begun.turn.history) == ["one", "yes"]
    assert (begun.parent_id, tree_tag(begun.response_id)) == (first.id, tree_tag(first.id))


async def test_a_session_is_leased_and_continues_its_head(desk: Desk) -> None:
    first = await desk.begin(session_id="s")
    with pytest.raises(SessionLocked) as caught:
        await desk.begin(session_id="s")
    assert caught.value.code == "conversation_locked"
    record = await desk.commit(first)
    assert record.session_id == "s"
    assert (await desk.begin(session_id="s")).parent_id == record.id


async def test_a_conversation_must_have_been_made(desk: Desk) -> None:
    conversation_id = await desk.conversation()
    begun = await desk.begin(conversation=conversation_id)
    assert begun.lease is not None
    assert begun.lease.fence.session_id == conversation_id
    for unknown in (new_conversation_id(RandomIds()), "nonsense"):
        with pytest.raises(ConversationNotFound):
            await desk.begin(conversation=unknown, key="k")
        assert (await desk.store.describe_session(TENANT, unknown)).lease is None
    assert (await desk.begin(key="k")).key == "k"  # which nobody has


async def test_a_conversation_is_looked_for_under_its_lease(desk: Desk) -> None:
    conversation_id = await desk.conversation()
    desk.slow.calls.clear()
    begun = await desk.begin(conversation=conversation_id)
    assert desk.slow.calls == ["begin_turn", "get_conversation"]
    with pytest.raises(SessionLocked):
        await desk.store.delete_conversation(TENANT, conversation_id)
    desk.clock.advance(31)
    await desk.store.delete_conversation(TENANT, conversation_id)
    with pytest.raises(ConversationNotFound):
        await desk.starter.reclaim_session(begun)
    assert (await desk.store.describe_session(TENANT, conversation_id)).lease is None


async def test_one_past_only(desk: Desk) -> None:
    first = await desk.commit(await desk.begin())
    with pytest.raises(InvalidRequest) as caught:
        await desk.begin(previous_response_id=first.id, session_id="s")
    assert (caught.value.field, caught.value.code) == ("previous_response_id", "mutually_exclusive_parameters")
    assert (await desk.store.describe_session(TENANT, "s")).lease is None


@pytest.mark.parametrize(
    ("options", "field"),
    [({"background": True}, "background"), ({"session_id": "s"}, "conversation"), ({"key": "k"}, "Idempotency-Key")],
)
async def test_what_has_to_be_remembered_needs_store(desk: Desk, options: Object, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await desk.begin(store=False, **options)
    assert caught.value.field == field
    assert desk.slow.calls == []


async def test_a_key_is_of_one_request(desk: Desk) -> None:
    begun = await desk.begin(key="k")
    assert begun.logged
    running = await desk.ask(key="k")
    assert running == RepeatedRequest(TENANT, begun.response_id, None, "k", begun.fingerprint)
    record = await desk.commit(begun)
    assert await desk.ask(key="k") == RepeatedRequest(TENANT, begun.response_id, record, "k", begun.fingerprint)
    for other in ({"input": "other"}, {"temperature": 0.5}, {"session_id": "s"}, {"stream": True}):
        with pytest.raises(IdempotencyMismatch):
            await desk.ask(key="k", **other)
    assert (await desk.store.describe_session(TENANT, "s")).lease is None


async def test_what_a_turn_took_can_be_given_back(desk: Desk) -> None:
    begun = await desk.begin(key="k", session_id="s")
    await desk.starter.give_up(begun)
    again = await desk.begin(key="k", session_id="s")
    assert again.response_id != begun.response_id


@pytest.mark.parametrize("options", [{"session_id": "s"}, {"key": "k"}, {"session_id": "s", "key": "k"}])
async def test_a_caller_that_goes_away_while_it_begins_leaves_nothing_behind(desk: Desk, options: Object) -> None:
    desk.slow.go.clear()
    asking = asyncio.create_task(desk.begin(**options))
    await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    desk.slow.go.set()
    await desk.starter.cleanup.settle()
    assert (await desk.begin(**options)).lease is not None or "key" in options


async def waiting(desk: Desk, **options: Any) -> asyncio.Task[AcceptedTurn | RepeatedRequest]:
    """A request that waits for a session in which another turn runs."""
    asking = asyncio.create_task(desk.ask(session_id="s", **options))
    await asyncio.sleep(0.01)
    assert not asking.done()
    return asking


@pytest.mark.parametrize("options", [{}, {"key": "k"}])
async def test_a_caller_that_goes_away_while_it_waits_is_not_waited_for(desk: Desk, options: Object) -> None:
    desk.starter._wait_ms = 60_000
    first = await desk.begin(session_id="s")
    asking = await waiting(desk, **options)
    asking.cancel()
    await asyncio.wait([asking])
    async with asyncio.timeout(30):
        await desk.starter.cleanup.settle()
    lease = (await desk.store.describe_session(TENANT, "s")).lease
    assert lease is not None
    assert lease.holder == first.response_id
    await desk.starter.give_up(first)
    assert (await desk.begin(session_id="s", **options)).lease is not None


async def test_what_was_taken_in_that_moment_is_given_back(desk: Desk) -> None:
    """The turn before it ends while its caller goes away, and nobody hears the store's answer."""
    desk.starter._wait_ms = 60_000
    first = await desk.begin(session_id="s")
    desk.slow.go.clear()
    asking = await waiting(desk, key="k")
    await desk.starter.give_up(first)
    async with asyncio.timeout(30):
        while (lease := (await desk.store.describe_session(TENANT, "s")).lease) is None:
            await asyncio.sleep(0.01)
    assert lease.holder != first.response_id
    asking.cancel()
    await asyncio.wait([asking])
    desk.slow.go.set()
    await desk.starter.cleanup.settle()
    assert (await desk.store.describe_session(TENANT, "s")).lease is None
    assert isinstance(await desk.ask(session_id="s", key="k", input="other"), AcceptedTurn)


async def test_a_repetition_that_goes_away_takes_nothing_from_the_first(desk: Desk) -> None:
    first = await desk.begin(key="k")
    desk.slow.go.clear()
    asking = asyncio.create_task(desk.ask(key="k"))
    await asyncio.sleep(0.01)
    asking.cancel()
    desk.slow.go.set()
    await asyncio.gather(asking, return_exceptions=True)
    await desk.starter.cleanup.settle()
    assert await desk.ask(key="k") == RepeatedRequest(TENANT, first.response_id, None, "k", first.fingerprint)


async def test_items_that_are_referred_to_stand_in_their_place(desk: Desk) -> None:
    first = await desk.commit(await desk.begin(input="one"))
    (said,) = loads(first.input_items)
    begun = await desk.begin(input=[{"type": "item_reference", "id": said["id"]}, {"role": "user", "content": "two"}])
    assert texts(begun.turn.input) == ["one", "two"]
    with pytest.raises(ItemNotFound) as caught:
        await desk.begin(input=[{"id": "rs_unknown"}], session_id="s")
    assert caught.value.message.startswith("Item with id 'rs_unknown' not found. Items are not persisted")
    assert (await desk.store.describe_session(TENANT, "s")).lease is None


async def test_sealed_reasoning_is_opened(desk: Desk) -> None:
    sealed = desk.starter.sealer.seal(TENANT, "Hm.")
    begun = await desk.begin(input=[{"type": "reasoning", "summary": [], "encrypted_content": sealed}])
    assert loads(begun.turn.input)[0]["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    foreign = desk.starter.sealer.seal("other", "Hm.")
    with pytest.raises(InvalidRequest) as caught:
        await desk.begin(input=[{"type": "reasoning", "summary": [], "encrypted_content": foreign}])
    assert caught.value.code == "invalid_encrypted_content"


async def test_a_look_takes_nothing(desk: Desk) -> None:
    conversation_id = await desk.conversation()
    await desk.commit(await desk.begin(input="one", conversation=conversation_id))
    request = CreateRequest.parse(dumps({"model": "m", "input": "two", "conversation": conversation_id}))
    assert texts((await desk.starter.look(TENANT, request)).history) == ["one", "yes"]
    assert (await desk.store.describe_session(TENANT, conversation_id)).lease is None
    chained = CreateRequest.parse(b'{"model":"m","input":"x","previous_response_id":"resp_1"}')
    with pytest.raises(PreviousResponseNotFound):
        await desk.starter.look(TENANT, chained)


async def test_an_interrupted_turn_takes_its_session_again_unless_the_session_went_on(desk: Desk) -> None:
    begun = await desk.begin(session_id="s")
    assert begun.lease is not None
    again = await desk.starter.reclaim_session(begun)
    assert (again.lease, again.parent_id) == (begun.lease, None)
    desk.clock.advance(31)
    late = await desk.starter.reclaim_session(begun)
    assert late.lease is not None
    assert late.lease.fence.token > begun.lease.fence.token
    desk.clock.advance(31)
    await desk.commit(await desk.begin(input="between", session_id="s"))
    with pytest.raises(SessionLocked):
        await desk.starter.reclaim_session(begun)
    assert (await desk.store.describe_session(TENANT, "s")).lease is None
    plain = await desk.begin()
    assert await desk.starter.reclaim_session(plain) is plain


async def test_a_store_that_froze_is_given_up_and_what_it_took_all_the_same_is_given_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon_edge.turns.store_retry.SLOW_S", 0.01)
    desk.slow.go.clear()
    desk.slow.error = StoreUnavailable("frozen")
    with pytest.raises(StoreUnavailable):
        await desk.begin(session_id="s", key="k")
    desk.slow.go.set()
    await desk.starter.cleanup.settle()
    desk.slow.error = None
    assert (await desk.begin(session_id="s", key="k")).lease is not None


async def test_a_caller_that_leaves_while_its_input_is_written_leaves_no_lease_and_no_key(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_writing = asyncio.Event()

    async def write(*_: Any, **__: Any) -> None:
        is_writing.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(desk.starter, "_turn", write)
        beginning = asyncio.create_task(desk.ask(session_id="s", key="k"))
        await is_writing.wait()
        beginning.cancel()
        await asyncio.wait([beginning])
    await desk.starter.cleanup.settle()
    assert (await desk.store.describe_session(TENANT, "s")).lease is None
    assert (await desk.begin(session_id="s", key="k")).key == "k"


@pytest.mark.parametrize("error", [StoreUnavailable("the answer is lost"), Timeout("the answer is late")])
async def test_a_lost_answer_leaves_no_lease_and_no_key(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    begin_turn, answers = desk.store.begin_turn, [error]

    async def lose(*arguments: Any) -> TurnStart:
        start = await begin_turn(*arguments)
        if answers:
            raise answers.pop()
        return start

    monkeypatch.setattr(desk.store, "begin_turn", lose)
    with pytest.raises(type(error)):
        await desk.begin(session_id="s", key="k")
    await desk.starter.cleanup.settle()
    assert (await desk.store.describe_session(TENANT, "s")).lease is None
    assert (await desk.begin(session_id="s", key="k")).key == "k"


async def test_a_key_is_given_back_without_the_session_that_was_not_taken_again(desk: Desk) -> None:
    begun = await desk.begin(session_id="s", key="k")
    assert begun.lease is not None
    waiting = replace(begun, lease=replace(begun.lease, fence=Fence("s", 0)))
    await desk.starter.give_up(waiting)
    asked = await desk.ask(key="k", input="something else")
    assert isinstance(asked, AcceptedTurn)


async def test_references_to_more_than_a_record_holds_are_rejected_before_generation(desk: Desk) -> None:
    content = "x" * (3 * 2**20)
    await desk.commit(await desk.begin(input=[{"id": "msg_large", "role": "user", "content": content}]))
    many_times = [{"type": "item_reference", "id": "msg_large"}] * 6
    with pytest.raises(TooLarge) as caught:
        await desk.begin(input=many_times, session_id="s")
    assert caught.value.field == "input"
    await desk.starter.cleanup.settle()
    assert (await desk.store.describe_session(TENANT, "s")).lease is None
    assert isinstance(await desk.ask(input=many_times, store=False), AcceptedTurn)


async def test_large_items_that_are_referred_to_are_completed_outside_the_event_loop(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = "x" * INLINE_BYTES_MAX
    await desk.commit(await desk.begin(input=[{"id": "msg_large", "role": "user", "content": content}]))
    threads: list[threading.Thread] = []

    def noted(*arguments: Any) -> list[Object]:
        threads.append(threading.current_thread())
        return normalise_input(*arguments)

    monkeypatch.setattr(turn_starter, "normalise_input", noted)
    await desk.begin(input=[{"type": "item_reference", "id": "msg_large"}])
    assert len(threads) == 1
    assert threading.current_thread() not in threads
