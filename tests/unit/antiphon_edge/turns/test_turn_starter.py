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
    DataDamaged,
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
from antiphon_edge.turns import turn_input
from antiphon_edge.turns.accepted_turn import AcceptedTurn, RepeatedRequest
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService
from tests.support.translators import ScriptedTranslator
from tests.support.turn_services import turn_parts

TENANT = "t"
OUTPUT = b'[{"id":"msg_said","type":"message","role":"assistant","content":[{"type":"output_text","text":"yes"}]}]'


class SlowStore:
    """A store whose `begin_turn` returns after `go`. Counts all calls."""

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


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.backend = row_backend("memory://", clock=self.clock)
        self.store = StoreService(self.backend)
        self.slow = SlowStore(self.store)
        self._make_starter()

    def _make_starter(self) -> None:
        slow: Any = self.slow
        self.parts = turn_parts(slow, ScriptedTranslator(), clock=self.clock)
        self.starter = self.parts.starter

    async def ask(
        self, *, session_id: str | None = None, key: str | None = None, **members: Any
    ) -> AcceptedTurn | RepeatedRequest:
        request = CreateRequest.parse(dumps({"model": "m", "input": "hi"} | members))
        return await self.starter.begin(TENANT, request, session_id=session_id, key=key)

    async def begin(self, **options: Any) -> AcceptedTurn:
        accepted = await self.ask(**options)
        assert isinstance(accepted, AcceptedTurn)
        return accepted

    async def commit(self, accepted: AcceptedTurn) -> Record:
        record = accepted.record(Status.COMPLETED, b"{}", OUTPUT)
        fence = accepted.lease.fence if accepted.lease is not None else None
        await self.store.commit_turn(TENANT, TurnCommit(record, fence=fence, idempotency_key=accepted.key))
        return await self.store.get(TENANT, record.id)

    def fail_searches(self) -> list[TurnRequest]:
        """Lets searches for lineages fail. Returns a list of them."""
        begin, searches = self.slow.begin_turn, list[TurnRequest]()

        async def begin_turn(tenant: str, request: TurnRequest) -> TurnStart:
            if not request.lineage_keys:
                return await begin(tenant, request)
            searches.append(request)
            raise DataDamaged.of("the lineage of another response")

        self.slow.begin_turn = begin_turn  # type: ignore[method-assign]
        return searches

    def fill(self) -> None:
        """Fills the store, for a new starter that has not seen room yet."""
        self.slow.error = StoreUnavailable("The disk is full.", full=True)
        self._make_starter()

    async def conversation(self) -> str:
        conversation_id = new_conversation_id(RandomIds())
        await self.store.create_conversation(TENANT, conversation_id=conversation_id)
        return conversation_id


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.backend.open()
    yield bench
    await bench.parts.cleanup.settle()
    await bench.backend.close()


def texts(items: bytes) -> list[str]:
    return [item["content"][0]["text"] for item in loads(items)]


async def test_unstored_turn_without_a_history_calls_no_store(bench: Bench) -> None:
    accepted = await bench.begin(store=False)
    assert bench.slow.calls == []
    assert (accepted.is_stored, accepted.parent_id, accepted.lease, accepted.has_log) == (False, None, None, False)
    assert (accepted.turn.history, texts(accepted.turn.input)) == (b"[]", ["hi"])
    assert "input" not in loads(accepted.turn.request)


async def test_history_of_a_chain_is_read_in_one_store_call(bench: Bench) -> None:
    first = await bench.commit(await bench.begin(input="one"))
    bench.slow.calls.clear()
    accepted = await bench.begin(input="two", previous_response_id=first.id)
    assert bench.slow.calls == ["begin_turn"]
    assert texts(accepted.turn.history) == ["one", "yes"]
    assert (accepted.parent_id, tree_tag(accepted.response_id)) == (first.id, tree_tag(first.id))


async def test_a_keyed_turn_that_resends_its_conversation_begins_without_its_lineage(bench: Bench) -> None:
    """The search is a call of its own, which may fail or take too long."""
    again: list[Object] = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
    searches = bench.fail_searches()
    accepted = await bench.begin(input=[*again, {"role": "user", "content": "Go on"}], key="key")
    assert searches == [TurnRequest(lineage_keys=searches[0].lineage_keys)]
    assert (accepted.key, accepted.turn.round_lineage) == ("key", b"")


async def test_a_session_is_leased_and_continues_its_head(bench: Bench) -> None:
    first = await bench.begin(session_id="s")
    with pytest.raises(SessionLocked) as caught:
        await bench.begin(session_id="s")
    assert caught.value.code == "conversation_locked"
    record = await bench.commit(first)
    assert record.session_id == "s"
    assert (await bench.begin(session_id="s")).parent_id == record.id


async def test_turn_in_an_unknown_conversation_is_rejected(bench: Bench) -> None:
    conversation_id = await bench.conversation()
    accepted = await bench.begin(conversation=conversation_id)
    assert accepted.lease is not None
    assert accepted.lease.fence.session_id == conversation_id
    for unknown in (new_conversation_id(RandomIds()), "nonsense"):
        with pytest.raises(ConversationNotFound):
            await bench.begin(conversation=unknown, key="k")
        assert (await bench.store.describe_session(TENANT, unknown)).lease is None
    assert (await bench.begin(key="k")).key == "k"  # no rejected request has kept the key


async def test_a_conversation_is_looked_for_under_its_lease(bench: Bench) -> None:
    conversation_id = await bench.conversation()
    bench.slow.calls.clear()
    accepted = await bench.begin(conversation=conversation_id)
    assert bench.slow.calls == ["begin_turn", "get_conversation"]
    with pytest.raises(SessionLocked):
        await bench.store.delete_conversation(TENANT, conversation_id)
    bench.clock.advance(31)
    await bench.store.delete_conversation(TENANT, conversation_id)
    with pytest.raises(ConversationNotFound):
        await bench.starter.reclaim_session(accepted)
    assert (await bench.store.describe_session(TENANT, conversation_id)).lease is None


async def test_previous_response_together_with_a_session_is_rejected(bench: Bench) -> None:
    first = await bench.commit(await bench.begin())
    with pytest.raises(InvalidRequest) as caught:
        await bench.begin(previous_response_id=first.id, session_id="s")
    assert (caught.value.field, caught.value.code) == ("previous_response_id", "mutually_exclusive_parameters")
    assert (await bench.store.describe_session(TENANT, "s")).lease is None


@pytest.mark.parametrize(
    ("options", "field"),
    [({"background": True}, "background"), ({"session_id": "s"}, "conversation"), ({"key": "k"}, "Idempotency-Key")],
)
async def test_background_session_or_key_with_store_false_is_rejected(
    bench: Bench, options: Object, field: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await bench.begin(store=False, **options)
    assert caught.value.field == field
    assert bench.slow.calls == []


async def test_key_repeats_one_request_and_rejects_others(bench: Bench) -> None:
    accepted = await bench.begin(key="k")
    assert accepted.has_log
    running = await bench.ask(key="k")
    assert running == RepeatedRequest(TENANT, accepted.response_id, None, "k", accepted.fingerprint)
    record = await bench.commit(accepted)
    assert await bench.ask(key="k") == RepeatedRequest(TENANT, accepted.response_id, record, "k", accepted.fingerprint)
    for other in ({"input": "other"}, {"temperature": 0.5}, {"session_id": "s"}, {"stream": True}):
        with pytest.raises(IdempotencyMismatch):
            await bench.ask(key="k", **other)
    assert (await bench.store.describe_session(TENANT, "s")).lease is None


async def test_turn_that_is_given_up_releases_its_key_and_session(bench: Bench) -> None:
    accepted = await bench.begin(key="k", session_id="s")
    await bench.starter.give_up(accepted)
    again = await bench.begin(key="k", session_id="s")
    assert again.response_id != accepted.response_id


@pytest.mark.parametrize("options", [{"session_id": "s"}, {"key": "k"}, {"session_id": "s", "key": "k"}])
async def test_client_disconnect_while_a_turn_begins_leaves_no_lease_and_no_key(bench: Bench, options: Object) -> None:
    bench.slow.go.clear()
    asking = asyncio.create_task(bench.begin(**options))
    await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    bench.slow.go.set()
    await bench.parts.cleanup.settle()
    assert (await bench.begin(**options)).lease is not None or "key" in options


async def waiting(bench: Bench, **options: Any) -> asyncio.Task[AcceptedTurn | RepeatedRequest]:
    """A request that waits for a session in which another turn runs."""
    asking = asyncio.create_task(bench.ask(session_id="s", **options))
    await asyncio.sleep(0.01)
    assert not asking.done()
    return asking


@pytest.mark.parametrize("options", [{}, {"key": "k"}])
async def test_client_disconnect_ends_the_wait_for_a_session(bench: Bench, options: Object) -> None:
    bench.starter._wait_ms = 60_000
    first = await bench.begin(session_id="s")
    asking = await waiting(bench, **options)
    asking.cancel()
    await asyncio.wait([asking])
    async with asyncio.timeout(30):
        await bench.parts.cleanup.settle()
    lease = (await bench.store.describe_session(TENANT, "s")).lease
    assert lease is not None
    assert lease.holder == first.response_id
    await bench.starter.give_up(first)
    assert (await bench.begin(session_id="s", **options)).lease is not None


async def test_session_and_key_taken_during_a_client_disconnect_are_released(bench: Bench) -> None:
    """The session becomes free while the client disconnects, and the store's answer reaches no one."""
    bench.starter._wait_ms = 60_000
    first = await bench.begin(session_id="s")
    bench.slow.go.clear()
    asking = await waiting(bench, key="k")
    await bench.starter.give_up(first)
    async with asyncio.timeout(30):
        while (lease := (await bench.store.describe_session(TENANT, "s")).lease) is None:
            await asyncio.sleep(0.01)
    assert lease.holder != first.response_id
    asking.cancel()
    await asyncio.wait([asking])
    bench.slow.go.set()
    await bench.parts.cleanup.settle()
    assert (await bench.store.describe_session(TENANT, "s")).lease is None
    assert isinstance(await bench.ask(session_id="s", key="k", input="other"), AcceptedTurn)


async def test_client_disconnect_of_a_repeated_request_keeps_the_key_of_the_first(bench: Bench) -> None:
    first = await bench.begin(key="k")
    bench.slow.go.clear()
    asking = asyncio.create_task(bench.ask(key="k"))
    await asyncio.sleep(0.01)
    asking.cancel()
    bench.slow.go.set()
    await asyncio.gather(asking, return_exceptions=True)
    await bench.parts.cleanup.settle()
    assert await bench.ask(key="k") == RepeatedRequest(TENANT, first.response_id, None, "k", first.fingerprint)


async def test_item_references_are_replaced_by_their_items(bench: Bench) -> None:
    first = await bench.commit(await bench.begin(input="one"))
    (said,) = loads(first.input_items)
    accepted = await bench.begin(
        input=[{"type": "item_reference", "id": said["id"]}, {"role": "user", "content": "two"}]
    )
    assert texts(accepted.turn.input) == ["one", "two"]
    with pytest.raises(ItemNotFound) as caught:
        await bench.begin(input=[{"id": "rs_unknown"}], session_id="s")
    assert caught.value.message.startswith("Item with id 'rs_unknown' not found. Items are not persisted")
    assert (await bench.store.describe_session(TENANT, "s")).lease is None


async def test_sealed_reasoning_is_opened_for_its_tenant_only(bench: Bench) -> None:
    sealed = bench.parts.sealer.seal(TENANT, "Hm.")
    accepted = await bench.begin(input=[{"type": "reasoning", "summary": [], "encrypted_content": sealed}])
    assert loads(accepted.turn.input)[0]["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    foreign = bench.parts.sealer.seal("other", "Hm.")
    with pytest.raises(InvalidRequest) as caught:
        await bench.begin(input=[{"type": "reasoning", "summary": [], "encrypted_content": foreign}])
    assert caught.value.code == "invalid_encrypted_content"


async def test_look_reads_the_history_without_taking_a_lease(bench: Bench) -> None:
    conversation_id = await bench.conversation()
    await bench.commit(await bench.begin(input="one", conversation=conversation_id))
    request = CreateRequest.parse(dumps({"model": "m", "input": "two", "conversation": conversation_id}))
    assert texts((await bench.starter.look(TENANT, request)).history) == ["one", "yes"]
    assert (await bench.store.describe_session(TENANT, conversation_id)).lease is None
    chained = CreateRequest.parse(b'{"model":"m","input":"x","previous_response_id":"resp_1"}')
    with pytest.raises(PreviousResponseNotFound):
        await bench.starter.look(TENANT, chained)


async def test_an_interrupted_turn_takes_its_session_again_unless_the_session_went_on(bench: Bench) -> None:
    accepted = await bench.begin(session_id="s")
    assert accepted.lease is not None
    again = await bench.starter.reclaim_session(accepted)
    assert (again.lease, again.parent_id) == (accepted.lease, None)
    bench.clock.advance(31)
    late = await bench.starter.reclaim_session(accepted)
    assert late.lease is not None
    assert late.lease.fence.token > accepted.lease.fence.token
    bench.clock.advance(31)
    await bench.commit(await bench.begin(input="between", session_id="s"))
    with pytest.raises(SessionLocked):
        await bench.starter.reclaim_session(accepted)
    assert (await bench.store.describe_session(TENANT, "s")).lease is None
    plain = await bench.begin()
    assert await bench.starter.reclaim_session(plain) is plain


async def test_lease_and_key_that_a_frozen_store_takes_after_the_timeout_are_released(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon_edge.store_calls.SLOW_S", 0.01)
    bench.slow.go.clear()
    bench.slow.error = StoreUnavailable("frozen")
    with pytest.raises(StoreUnavailable):
        await bench.begin(session_id="s", key="k")
    bench.slow.go.set()
    await bench.parts.cleanup.settle()
    bench.slow.error = None
    assert (await bench.begin(session_id="s", key="k")).lease is not None


async def test_a_caller_that_leaves_while_its_input_is_written_leaves_no_lease_and_no_key(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_writing = asyncio.Event()

    async def write(*_: Any, **__: Any) -> None:
        is_writing.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(bench.starter._builder, "turn", write)
        beginning = asyncio.create_task(bench.ask(session_id="s", key="k"))
        await is_writing.wait()
        beginning.cancel()
        await asyncio.wait([beginning])
    await bench.parts.cleanup.settle()
    assert (await bench.store.describe_session(TENANT, "s")).lease is None
    assert (await bench.begin(session_id="s", key="k")).key == "k"


@pytest.mark.parametrize("error", [StoreUnavailable("the answer is lost"), Timeout("the answer is late")])
async def test_a_lost_answer_leaves_no_lease_and_no_key(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    begin_turn, answers = bench.store.begin_turn, [error]

    async def lose(*arguments: Any) -> TurnStart:
        start = await begin_turn(*arguments)
        if answers:
            raise answers.pop()
        return start

    monkeypatch.setattr(bench.store, "begin_turn", lose)
    with pytest.raises(type(error)):
        await bench.begin(session_id="s", key="k")
    await bench.parts.cleanup.settle()
    assert (await bench.store.describe_session(TENANT, "s")).lease is None
    assert (await bench.begin(session_id="s", key="k")).key == "k"


async def test_key_is_released_although_its_session_was_not_taken_again(bench: Bench) -> None:
    accepted = await bench.begin(session_id="s", key="k")
    assert accepted.lease is not None
    waiting = replace(accepted, lease=replace(accepted.lease, fence=Fence("s", 0)))
    await bench.starter.give_up(waiting)
    asked = await bench.ask(key="k", input="something else")
    assert isinstance(asked, AcceptedTurn)


async def test_references_to_more_than_a_record_holds_are_rejected_before_generation(bench: Bench) -> None:
    content = "x" * (3 * 2**20)
    await bench.commit(await bench.begin(input=[{"id": "msg_large", "role": "user", "content": content}]))
    many_times = [{"type": "item_reference", "id": "msg_large"}] * 6
    with pytest.raises(TooLarge) as caught:
        await bench.begin(input=many_times, session_id="s")
    assert caught.value.field == "input"
    await bench.parts.cleanup.settle()
    assert (await bench.store.describe_session(TENANT, "s")).lease is None
    assert isinstance(await bench.ask(input=many_times, store=False), AcceptedTurn)


async def test_large_items_that_are_referred_to_are_completed_outside_the_event_loop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = "x" * INLINE_BYTES_MAX
    await bench.commit(await bench.begin(input=[{"id": "msg_large", "role": "user", "content": content}]))
    threads: list[threading.Thread] = []

    def noted(*arguments: Any, **options: Any) -> list[Object]:
        threads.append(threading.current_thread())
        return normalise_input(*arguments, **options)

    monkeypatch.setattr(turn_input, "normalise_input", noted)
    await bench.begin(input=[{"type": "item_reference", "id": "msg_large"}])
    assert len(threads) == 1
    assert threading.current_thread() not in threads


async def test_repeated_request_is_answered_by_a_full_store(bench: Bench) -> None:
    accepted = await bench.begin(key="k")
    await bench.commit(accepted)
    bench.fill()
    repeated = await bench.ask(key="k")
    assert isinstance(repeated, RepeatedRequest)
    assert repeated.response_id == accepted.response_id


async def test_new_request_under_a_key_is_rejected_by_a_full_store_and_leaves_the_key(bench: Bench) -> None:
    bench.fill()
    for _ in range(2):  # a second request is not answered as a repetition of the first
        with pytest.raises(StoreUnavailable, match="no room"):
            await bench.ask(key="k", session_id="s")
        await bench.parts.cleanup.settle()
    assert (await bench.store.describe_session(TENANT, "s")).lease is None
