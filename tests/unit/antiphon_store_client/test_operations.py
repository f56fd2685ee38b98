from __future__ import annotations

import inspect
import re

from antiphon_store_client import operations, v1
from antiphon_store_client.calls import PATHS


def test_every_rpc_has_an_operation() -> None:
    sent = set(re.findall(r"v1\.(\w+)Request\(", inspect.getsource(operations)))
    assert sent == {path.rpartition("/")[2] for path in PATHS.values()}


def test_items_and_metadata_travel_as_json() -> None:
    item = {"type": "message", "content": "Grüße."}
    made = operations.create_conversation(metadata={"customer": "17"}, items=[item])
    assert isinstance(made.request, v1.CreateConversationRequest)
    assert made.request.metadata == b'{"customer":"17"}'
    assert made.request.items.decode() == '[{"type":"message","content":"Grüße."}]'
    added = operations.add_conversation_items("conv_1", [item])
    assert added.result(v1.AddConversationItemsResponse(items=made.request.items)) == [item]
    assert added.result(v1.AddConversationItemsResponse()) == []


def test_forks_and_conversations_have_ids_before_they_are_sent() -> None:
    """The channel may send a call twice. Both calls must make the same fork."""
    forked = operations.fork(up_to_response_id="resp_" + "ab" * 24).request
    assert isinstance(forked, v1.ForkRequest)
    assert forked.new_session_id.startswith("conv_" + "ab" * 8)
    named = operations.fork("order-17", new_session_id="order-18").request
    assert isinstance(named, v1.ForkRequest)
    assert named.new_session_id == "order-18"
    made = operations.create_conversation().request
    assert isinstance(made, v1.CreateConversationRequest)
    assert made.id.startswith("conv_")


def test_expected_version_zero_is_sent_and_none_is_not() -> None:
    absent = operations.update_conversation("conv_1", {}).request
    zero = operations.update_conversation("conv_1", {}, expected_version=0).request
    assert not absent.HasField("expected_version")
    assert zero.HasField("expected_version")
