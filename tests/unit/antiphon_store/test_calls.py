"""Every argument and every result of the ports survives the wire. That the calls do what they say is the kit's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest, NotFound
from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.event_logs import Checkpoint, EventAppend, EventBatch
from antiphon_core.ports.jobs import Job, JobDescription, JobDraft, JobOutcome, JobPulse, JobState
from antiphon_core.ports.lineage import Fork, ForkSource, NodePage, RecordPage, ResolvedItem, ResolvedItems, TreeNode
from antiphon_core.ports.retention import Sweeping
from antiphon_core.ports.spending import Draw, Hold, Level, Refusal, Spend, Spent
from antiphon_core.ports.store import (
    Fence,
    History,
    ItemPage,
    Lease,
    LogEnd,
    Order,
    Precondition,
    Record,
    Session,
    Stamp,
    Status,
    TurnCommit,
    TurnRequest,
    TurnStart,
)
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.services import Method, Row
from antiphon_store.calls import CODECS, Codec
from tests.support.sent import sent

texts = st.text("abc_-0", min_size=1, max_size=8)
numbers = st.integers(1, 2**31)
blobs = st.binary(min_size=1, max_size=9)
statuses = st.sampled_from(Status)
fences = st.builds(Fence, texts, numbers)
leases = st.builds(Lease, fences, texts, numbers)
stamps = st.builds(Stamp, numbers, numbers, numbers, numbers, st.none() | numbers)
records = st.builds(
    Record,
    texts,
    statuses,
    blobs,
    blobs,
    blobs,
    st.none() | texts,
    st.none() | texts,
    *[numbers] * 4,
    st.none() | numbers,
)
preconditions = st.builds(
    Precondition,
    st.none() | st.integers(0, 9),
    st.frozensets(statuses),
    st.frozensets(statuses),
    st.none() | fences,
)
orders = st.sampled_from(Order)
maybe_text, maybe_number = st.none() | texts, st.none() | numbers
requests = st.builds(
    TurnRequest,
    maybe_text,
    maybe_text,
    texts,
    numbers,
    st.integers(0, 9),
    numbers,
    numbers,
    maybe_text,
    st.binary(max_size=32),
    maybe_text,
)
commits = st.builds(
    TurnCommit,
    records,
    st.none() | fences,
    maybe_number,
    maybe_text,
    preconditions,
    st.none() | st.builds(LogEnd, numbers, st.binary(max_size=9)),
)
checkpoints = st.builds(Checkpoint, numbers, st.lists(st.integers(0, 2**32 - 1), max_size=3).map(tuple))
appends = st.builds(
    EventAppend, texts, st.integers(0, 9), numbers, st.binary(max_size=9), st.none() | checkpoints, st.booleans()
)
units = st.floats(0, 10**15)
draws = st.builds(Draw, texts, units, units, units, units)
holds = st.builds(Hold, st.lists(texts, min_size=1, max_size=3), numbers, st.integers(0, 9))
spends = st.builds(
    Spend, st.lists(draws, max_size=3).map(tuple), st.none() | holds, st.lists(texts, max_size=3).map(tuple)
)
record_lists = st.lists(records, max_size=3)
nodes = st.builds(TreeNode, texts, maybe_text, st.none() | statuses, numbers, st.integers(0, 9), numbers)
node_pages = st.builds(NodePage, st.lists(nodes, max_size=3), maybe_text)
item_pages = st.builds(ItemPage, blobs, st.none(), st.none(), st.just(False)) | st.builds(
    ItemPage, blobs, texts, texts, st.booleans()
)
resolved = st.builds(ResolvedItems, st.lists(st.builds(ResolvedItem, texts, texts, blobs)), st.lists(texts).map(tuple))
conversations = st.builds(Conversation, texts, blobs, numbers, numbers)
histories = st.builds(History, blobs, st.integers(0, 9), maybe_text)
jobs = st.builds(Job, texts, texts, blobs, numbers, numbers, st.booleans(), fences, numbers)
descriptions = st.builds(
    JobDescription, texts, texts, st.sampled_from(JobState), numbers, numbers, st.booleans(), st.text(max_size=5)
)
batches = st.builds(
    EventBatch, numbers, numbers, st.binary(max_size=9), st.booleans(), st.lists(checkpoints, max_size=2).map(tuple)
)
spent = st.builds(
    Spent,
    st.lists(st.builds(Level, texts, st.floats(-(10**15), 10**15), units, numbers), max_size=3).map(tuple),
    st.none() | st.builds(Refusal, maybe_text, numbers),
)


# RPC -> its arguments behind the tenant, and its result
CALLS: dict[str, tuple[dict[str, st.SearchStrategy[Any]], st.SearchStrategy[Any]]] = {
    "PutResponseRecord": (
        {"record": records, "precondition": preconditions, "ttl_ms": maybe_number, "idempotency_key": maybe_text},
        stamps,
    ),
    "GetResponseRecord": ({"response_id": texts}, records),
    "BatchGetResponseRecords": ({"ids": st.lists(texts)}, record_lists),
    "UpdateResponseRecordStatus": ({"response_id": texts, "status": statuses, "precondition": preconditions}, stamps),
    "DeleteResponseRecord": ({"response_id": texts, "precondition": preconditions}, st.none()),
    "ListResponseRecords": (
        {"session_id": texts, "cursor": maybe_text, "limit": numbers, "order": orders},
        st.builds(RecordPage, record_lists, maybe_text),
    ),
    "ListInputItems": ({"response_id": texts, "after": maybe_text, "limit": numbers, "order": orders}, item_pages),
    "ResolveItems": ({"item_ids": st.lists(texts)}, resolved),
    "GetChain": ({"response_id": texts, "max_depth": numbers, "max_bytes": numbers}, record_lists),
    "Fork": (
        {"source": st.builds(ForkSource, maybe_text, maybe_text), "new_session_id": maybe_text},
        st.builds(Fork, texts, texts),
    ),
    "ListTree": (
        {"response_id": texts, "from_root": st.booleans(), "cursor": maybe_text, "max_nodes": numbers},
        node_pages,
    ),
    **{
        name: ({"response_id": texts, "cursor": maybe_text, "limit": numbers}, node_pages)
        for name in ("ListChildren", "ListSiblings", "ListLeaves")
    },
    "AcquireSession": ({"session_id": texts, "holder": texts, "ttl_ms": numbers, "wait_ms": st.integers(0, 9)}, leases),
    "TryAcquireSession": ({"session_id": texts, "holder": texts, "ttl_ms": numbers}, leases),
    "RenewSession": ({"fence": fences, "ttl_ms": numbers}, leases),
    "ReleaseSession": ({"fence": fences}, st.booleans()),
    "DescribeSession": (
        {"session_id": texts},
        st.builds(Session, texts, maybe_text, st.integers(0, 9), st.none() | leases),
    ),
    "CreateConversation": (
        {"conversation_id": maybe_text, "metadata": blobs, "items": blobs, "ttl_ms": maybe_number},
        conversations,
    ),
    "GetConversation": ({"conversation_id": texts}, conversations),
    "UpdateConversation": (
        {"conversation_id": texts, "metadata": blobs, "expected_version": st.none() | st.integers(0, 9)},
        conversations,
    ),
    "DeleteConversation": ({"conversation_id": texts}, st.none()),
    "AddConversationItems": (
        {"conversation_id": texts, "items": blobs, "fence": st.none() | fences, "idempotency_key": maybe_text},
        blobs,
    ),
    "ListConversationItems": (
        {"conversation_id": texts, "after": maybe_text, "limit": numbers, "order": orders},
        item_pages,
    ),
    "GetConversationItem": ({"conversation_id": texts, "item_id": texts}, blobs),
    "DeleteConversationItem": ({"conversation_id": texts, "item_id": texts}, conversations),
    "BeginTurn": (
        {"request": requests},
        st.builds(TurnStart, histories, st.none() | leases, st.none() | records, maybe_text),
    ),
    "CommitTurn": ({"commit": commits}, stamps),
    "AbortTurn": ({"fence": st.none() | fences, "idempotency_key": maybe_text, "response_id": maybe_text}, st.none()),
    "AppendEvents": ({"append": appends, "fence": st.none() | fences}, numbers),
    "ReadEvents": (
        {"response_id": texts, "after": st.none() | st.integers(0, 9), "follow": st.booleans()},
        batches,
    ),
    "EnqueueJob": ({"draft": st.builds(JobDraft, texts, texts, blobs, numbers, st.integers(0, 9))}, st.none()),
    "ClaimJob": (
        {"queues": st.lists(texts), "holder": texts, "lease_ttl_ms": numbers, "wait_ms": st.integers(0, 9)},
        st.none() | jobs,
    ),
    "HeartbeatJob": ({"fence": fences, "lease_ttl_ms": numbers}, st.builds(JobPulse, st.booleans(), numbers)),
    "SettleJob": (
        {"fence": fences, "outcome": st.sampled_from(JobOutcome), "reason": st.text("ab", max_size=3)},
        st.none(),
    ),
    "CancelJob": ({"job_id": texts}, st.booleans()),
    "DescribeJob": ({"job_id": texts}, descriptions),
    "TakeQuota": ({"spend": spends}, spent),
    "Sweep": ({"limit": numbers}, st.builds(Sweeping, st.integers(0, 9), st.integers(0, 9), st.booleans())),
}


def test_every_rpc_has_a_codec_but_the_one_that_joins_others() -> None:
    assert set(CALLS) == set(CODECS) == set(STORE.methods) - {"AppendToLogs"}


@pytest.mark.parametrize("rpc", CALLS)
@given(data=st.data())
def test_arguments_survive_the_wire(rpc: str, data: st.DataObject) -> None:
    arguments = {name: data.draw(values, name) for name, values in CALLS[rpc][0].items()}
    tenant, request = CODECS[rpc].request(("acme",), arguments)
    served = CODECS[rpc].arguments(sent(request))
    assert tenant == "acme"
    assert served == arguments


@pytest.mark.parametrize("rpc", CALLS)
@given(data=st.data())
def test_results_survive_the_wire(rpc: str, data: st.DataObject) -> None:
    result = data.draw(CALLS[rpc][1])
    assert CODECS[rpc].answer.get(sent(CODECS[rpc].answer.put(result))) == result


def test_arguments_may_stand_by_position_or_by_name() -> None:
    codec = CODECS["GetResponseRecord"]
    request = codec.request(("acme", "resp_1"), {})
    assert request == codec.request(("acme",), {"response_id": "resp_1"})
    assert request == codec.request((), {"tenant": "acme", "response_id": "resp_1"})


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("acme",), {}),
        (("acme", "r", "more"), {}),
        (("acme", "r"), {"response_id": "r"}),
        (("acme", "r"), {"depth": 1}),
    ],
)
def test_arguments_that_the_port_has_not_are_a_type_error(args: tuple[str, ...], kwargs: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        CODECS["GetResponseRecord"].request(args, kwargs)


def test_what_is_left_out_is_the_default_of_the_port() -> None:
    _tenant, request = CODECS["ListInputItems"].request(("acme", "resp_1"), {})
    assert CODECS["ListInputItems"].arguments(request) == {
        "response_id": "resp_1",
        "after": None,
        "limit": 20,
        "order": Order.DESCENDING,
    }


def test_no_tenant_is_sent_that_is_none() -> None:
    with pytest.raises(InvalidRequest) as caught:
        CODECS["GetResponseRecord"].request(("white space", "resp_1"), {})
    assert caught.value.field == "tenant"


def test_errors_name_fields_of_pages_as_their_reader_does() -> None:
    codec = CODECS["ListTree"]
    error = InvalidRequest("'max_nodes' must be from 1 to 10000, but is 0.", field="max_nodes")
    codec.name_for_wire(error)
    assert (error.field, error.message) == ("page_size", "'page_size' must be from 1 to 10000, but is 0.")
    assert str(error) == error.message
    codec.name_for_port(error)
    assert error.field == "max_nodes"


def test_other_fields_keep_their_names() -> None:
    error = InvalidRequest("'id' must be.", field="id")
    CODECS["ListTree"].name_for_wire(error)
    assert error.field == "id"


@pytest.mark.parametrize(("rpc", "other"), [("GetResponseRecord", "DescribeSession"), ("Sweep", "GetChain")])
def test_a_method_whose_fields_differ_from_its_parameters_is_refused(rpc: str, other: str) -> None:
    given, wanted = STORE.methods[rpc], STORE.methods[other]
    row = Row(rpc, given.row.port, given.row.roles, given.row.deadline_s)
    with pytest.raises(TypeError):
        Codec(Method(rpc, given.service, wanted.request, given.response, False, row))


def test_an_error_without_a_field_stays() -> None:
    error = NotFound("gone")
    CODECS["ListTree"].name_for_wire(error)
    assert error.field is None
