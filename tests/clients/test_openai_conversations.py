"""Tests the Conversations API of the official, unmodified OpenAI SDK for Python, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.conversations import Conversation, ConversationDeletedResource, Message
from openai.types.responses import ResponseInputItemParam

from tests.support.edge import RunningEdge, running_edge

UNKNOWN = "conv_" + "0" * 48


@pytest.fixture
async def edge() -> AsyncIterator[RunningEdge]:
    async with running_edge() as running:
        yield running


@pytest.fixture
async def client(edge: RunningEdge) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=edge.server.url + "/v1", api_key="none", max_retries=0) as client:
        yield client


def words(text: str) -> ResponseInputItemParam:
    return {"type": "message", "role": "user", "content": text}


def text_of(item: object) -> str:
    assert isinstance(item, Message)
    return "".join(part.text for part in item.content if part.type in ("input_text", "output_text"))


async def test_a_conversation_is_created_read_updated_and_deleted(client: AsyncOpenAI) -> None:
    made = await client.conversations.create(metadata={"topic": "demo"}, items=[words("Grüße 🦜")])
    assert isinstance(made, Conversation)
    assert (made.object, made.metadata) == ("conversation", {"topic": "demo"})
    assert await client.conversations.retrieve(made.id) == made
    changed = await client.conversations.update(made.id, metadata={"topic": "other"})
    assert (changed.id, changed.metadata) == (made.id, {"topic": "other"})
    deleted = await client.conversations.delete(made.id)
    assert deleted == ConversationDeletedResource(id=made.id, object="conversation.deleted", deleted=True)
    with pytest.raises(openai.NotFoundError) as caught:
        await client.conversations.retrieve(made.id)
    assert f"Conversation with id '{made.id}' not found." in caught.value.message


async def test_conversation_items_are_created_read_listed_and_deleted(client: AsyncOpenAI) -> None:
    conversation = await client.conversations.create()
    added = await client.conversations.items.create(
        conversation.id,
        items=[words("a"), {"role": "assistant", "content": "b"}],
        include=["reasoning.encrypted_content"],
    )
    assert (added.object, added.has_more) == ("list", False)
    assert [text_of(item) for item in added.data] == ["a", "b"]
    assert (added.first_id, added.last_id) == (added.data[0].id, added.data[1].id)
    item = await client.conversations.items.retrieve(added.first_id, conversation_id=conversation.id)
    assert item == added.data[0]
    left = await client.conversations.items.delete(added.first_id, conversation_id=conversation.id)
    assert left == conversation
    assert [item async for item in client.conversations.items.list(conversation.id)] == added.data[1:]


async def test_sdk_pagination_lists_all_items_in_order(client: AsyncOpenAI) -> None:
    texts = [str(number) for number in range(45)]
    conversation = await client.conversations.create(items=[words(text) for text in texts[:20]])
    for start in (20, 40):
        batch = [words(text) for text in texts[start : start + 20]]
        await client.conversations.items.create(conversation.id, items=batch)
    for limit in (7, 100):
        listed = client.conversations.items.list(
            conversation.id, order="asc", limit=limit, include=["message.output_text.logprobs"]
        )
        assert [text_of(item) async for item in listed] == texts
    newest_first = client.conversations.items.list(conversation.id)
    assert [text_of(item) async for item in newest_first] == texts[::-1]


async def test_errors_are_the_sdks_own_classes(client: AsyncOpenAI, edge: RunningEdge) -> None:
    conversation = await client.conversations.create()
    with pytest.raises(openai.BadRequestError) as too_many:
        await client.conversations.items.create(conversation.id, items=[words("x")] * 21)
    assert (too_many.value.code, too_many.value.param) == ("array_above_max_length", "items")
    with pytest.raises(openai.NotFoundError):
        await client.conversations.items.retrieve("msg_unknown", conversation_id=conversation.id)
    await edge.store.acquire_session("default", conversation.id, holder="turn")
    with pytest.raises(openai.BadRequestError) as locked:
        await client.conversations.items.create(conversation.id, items=[words("x")])
    assert (locked.value.code, locked.value.param) == ("conversation_locked", "conversation")


async def test_the_synchronous_client_manages_conversations_and_items(edge: RunningEdge) -> None:
    await asyncio.to_thread(_use, edge.server.url + "/v1")


def _use(url: str) -> None:
    with OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        made = client.conversations.create(items=[words(text) for text in "abc"], metadata={"k": "v"})
        assert client.conversations.retrieve(made.id) == made
        assert client.conversations.update(made.id, metadata={}).metadata == {}
        added = client.conversations.items.create(made.id, items=[words("d")])
        listed = list(client.conversations.items.list(made.id, limit=1))
        assert [text_of(item) for item in listed] == ["d", "c", "b", "a"]
        assert client.conversations.items.retrieve(added.last_id, conversation_id=made.id) == listed[0]
        client.conversations.items.delete(added.last_id, conversation_id=made.id)
        assert [text_of(item) for item in client.conversations.items.list(made.id, order="asc")] == ["a", "b", "c"]
        assert client.conversations.delete(made.id).deleted
        with pytest.raises(openai.NotFoundError):
            client.conversations.items.list(UNKNOWN)
