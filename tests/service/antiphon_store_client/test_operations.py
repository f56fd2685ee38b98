"""Every operation of the blocking and the asyncio client, against a running store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from antiphon_store_client import NotFound, new_conversation_id, new_response_id, v1
from tests.support.scripted_store import FACES, EitherFace, Opener
from tests.support.system import serve
from tests.support.waiting import WAIT_MAX_S

HELLO = {"type": "message", "role": "user", "content": "Hello."}
DONE = v1.RESPONSE_STATUS_COMPLETED


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serve("store", "--store-url=memory://") as (_, address):
        yield address


@pytest.fixture(params=FACES, ids=["blocking", "asyncio"])
async def store(request: pytest.FixtureRequest, address: str) -> AsyncIterator[EitherFace]:
    opener: Opener = request.param
    face = EitherFace(opener(address, tenant="acme", timeout_s=WAIT_MAX_S))
    yield face
    await face.close()


async def put(store: EitherFace, parent: str = "", session_id: str = "", status: v1.ResponseStatus = DONE) -> str:
    items = b'[{"id": "msg_%d"}, {"id": "msg_last"}]' % len(parent)
    relative = parent or session_id
    record = v1.ResponseRecord(
        id=new_response_id(relative), parent_id=parent, session_id=session_id, status=status, body=b"{}",
        input_items=items,
    )  # fmt: skip
    await store.call("put", record)
    return record.id


async def test_response_operations_work_against_a_running_store(store: EitherFace) -> None:
    session = new_conversation_id()
    root = await put(store, session_id=session)
    running = await put(store, root, session, v1.RESPONSE_STATUS_IN_PROGRESS)
    assert (await store.call("get", root)).status == DONE
    assert [record.id for record in await store.call("batch_get", [running, root])] == [running, root]
    precondition = v1.Precondition(statuses=[v1.RESPONSE_STATUS_IN_PROGRESS])
    stamp = await store.call("update_status", running, v1.RESPONSE_STATUS_FAILED, precondition=precondition)
    assert stamp.version == 2
    assert {record.id for record in await store.call("list_responses", session, page_size=1)} == {running, root}
    assert [item["id"] for item in await store.call("list_items", root, page_size=1)] == ["msg_last", "msg_0"]
    resolved = await store.call("resolve_items", ["msg_0", "msg_unknown"])
    assert list(resolved.missing_ids) == ["msg_unknown"]
    await store.call("delete", running)
    with pytest.raises(NotFound):
        await store.call("get", running)


async def test_tree_operations_work_against_a_running_store(store: EitherFace) -> None:
    root = await put(store)
    left, right = await put(store, root), await put(store, root)
    leaf = await put(store, left)
    assert [record.id for record in await store.call("chain", leaf)] == [root, left, leaf]
    assert {node.id for node in await store.call("tree", leaf, from_root=True, page_size=1)} == {
        root,
        left,
        right,
        leaf,
    }
    assert {node.id for node in await store.call("children", root, page_size=1)} == {left, right}
    assert [node.id for node in await store.call("siblings", left)] == [right]
    assert {node.id for node in await store.call("leaves", root, page_size=1)} == {leaf, right}
    fork = await store.call("fork", up_to_response_id=left)
    assert fork.head_response_id == left
    assert (
        await store.call("fork", fork.session_id, new_session_id=new_like(fork.session_id))
    ).head_response_id == left


def new_like(conversation_id: str) -> str:
    """A new conversation id in the tree of `conversation_id`."""
    return new_response_id(conversation_id).replace("resp_", "conv_")


async def test_session_operations_work_against_a_running_store(store: EitherFace) -> None:
    session = new_conversation_id()
    lease = await store.call("try_acquire_session", session, holder="me")
    assert (await store.call("acquire_session", session, holder="me", wait_ms=0)).fence == lease.fence
    assert (await store.call("renew_session", lease.fence, ttl_ms=60_000)).expires_at_ms > lease.expires_at_ms
    assert (await store.call("describe_session", session)).lease.holder == "me"
    assert await store.call("release_session", lease.fence) is True
    assert await store.call("release_session", lease.fence) is False


async def test_conversation_operations_work_against_a_running_store(store: EitherFace) -> None:
    made = await store.call("create_conversation", metadata={"customer": "17"}, items=[HELLO])
    (added,) = await store.call("add_conversation_items", made.id, [HELLO | {"content": "Grüße."}])
    listed = await store.call("list_conversation_items", made.id, page_size=1)
    assert [item["content"] for item in listed] == ["Grüße.", "Hello."]
    assert await store.call("get_conversation_item", made.id, added["id"]) == added
    await store.call("delete_conversation_item", made.id, added["id"])
    current = await store.call("get_conversation", made.id)
    updated = await store.call("update_conversation", made.id, {"customer": "18"}, expected_version=current.version)
    assert updated.metadata == b'{"customer":"18"}'
    await store.call("delete_conversation", made.id)
    with pytest.raises(NotFound):
        await store.call("get_conversation", made.id)
