"""Every argument and every result of the ports survives the wire, and arguments are checked before.

`antiphon_store.testing` tests the calls, and the values that are rejected."""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncGenerator, Sequence
from dataclasses import fields, is_dataclass, replace
from inspect import signature
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest, NotFound
from antiphon_core.ports.checks import check_of
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.lineage import LineageStore
from antiphon_core.ports.store import History, ItemPage, Order, ResponseStore, TurnStart
from antiphon_core.rpc.codec import encode
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import Call
from antiphon_core.rpc.services import Method, Row
from antiphon_store.calls import OPERATION_OF, OPERATIONS, Operation, content_bytes_of, implements
from antiphon_store.testing.subject import draft
from tests.support.sent import sent
from tests.support.volume import volume

Values = st.SearchStrategy[Any]
EACH = settings(
    max_examples=volume(10, 1000)
)  # for each of a hundred messages; every second example shows a lost member

# Without zeros, because zero may stand for a default: test_shapes.py tests zeros.
SCALARS: dict[type, Values] = {
    str: st.text("abc_-0ä", min_size=1, max_size=8),
    int: st.integers(1, 2**31),
    float: st.floats(1, 10**15),
    bytes: st.binary(min_size=1, max_size=9),
    bool: st.booleans(),
    NoneType: st.none(),
}
# An empty page has no ids, and no page behind it.
PAGES = st.builds(ItemPage, SCALARS[bytes], st.none(), st.none(), st.just(False)) | st.builds(
    ItemPage, SCALARS[bytes], SCALARS[str], SCALARS[str], st.booleans()
)
BIND_PUT = OPERATION_OF[ResponseStore.put].bind
# Parameters that an RPC does not carry: TryAcquireSession never waits.
UNCHECKED = {"order", "from_root", "follow", "status", "outcome"}
"""Parameters whose types have no invalid values."""
LEFT_OUT = {"TryAcquireSession": {"wait_ms"}}


def values(hint: Any, default: object = None) -> Values:
    """Values of a type of the ports. A sequence is a tuple where its default is one."""
    container, members = get_origin(hint), get_args(hint)
    if hint in SCALARS:
        return SCALARS[hint]
    if container in (Union, UnionType):
        return st.one_of(*[values(each, default) for each in members])
    if container is not None:
        return _collections(container, values(members[0]), default)
    if hint is ItemPage:
        return PAGES
    if is_dataclass(hint) and isinstance(hint, type):
        hints = get_type_hints(hint)
        return st.builds(hint, *[values(hints[member.name], member.default) for member in fields(hint)])
    return st.sampled_from(hint)


def _collections(container: type, members: Values, default: object) -> Values:
    if container is frozenset:
        return st.frozensets(members, max_size=3)
    lists = st.lists(members, max_size=3)
    assert container in (tuple, Sequence)
    return lists.map(tuple) if container is tuple or default == () else lists


def arguments_of(rpc: str) -> dict[str, Values]:
    """Values for the parameters of an RPC's method, without the tenant."""
    port = STORE.methods[rpc].row.port
    hints, parameters = get_type_hints(port), list(signature(port).parameters.values())[2:]
    left_out = LEFT_OUT.get(rpc, set())
    return {each.name: values(hints[each.name], each.default) for each in parameters if each.name not in left_out}


def result_of(rpc: str) -> Values:
    hint = get_type_hints(STORE.methods[rpc].row.port)["return"]
    return values(get_args(hint)[0] if get_origin(hint) is AsyncGenerator else hint)


def test_every_rpc_except_append_to_logs_has_an_operation() -> None:
    assert set(OPERATIONS) == set(STORE.methods) - {"AppendToLogs"}


@pytest.mark.parametrize("rpc", OPERATIONS)
@EACH
@given(data=st.data())
def test_arguments_survive_the_wire(rpc: str, data: st.DataObject) -> None:
    arguments = {name: data.draw(drawn, name) for name, drawn in arguments_of(rpc).items()}
    assert OPERATIONS[rpc].arguments(sent(OPERATIONS[rpc].request(arguments))) == arguments


@pytest.mark.parametrize("rpc", OPERATIONS)
@EACH
@given(data=st.data())
def test_results_survive_the_wire(rpc: str, data: st.DataObject) -> None:
    result = data.draw(result_of(rpc))
    assert OPERATIONS[rpc].answer.get(sent(OPERATIONS[rpc].answer.put(result))) == result


def test_a_field_that_is_left_out_has_the_default_of_the_port() -> None:
    request = STORE.methods["ListInputItems"].request.message(response_id="resp_1")
    assert OPERATIONS["ListInputItems"].arguments(request) == {
        "response_id": "resp_1",
        "after": None,
        "limit": 20,
        "order": Order.DESCENDING,
    }


def test_a_member_that_the_wire_cannot_carry_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="cannot be sent"):
        OPERATIONS["PutResponseRecord"].request(BIND_PUT(("t", replace(draft(), version=-1)), {}))


def test_errors_name_paging_fields_for_the_wire_and_for_the_port() -> None:
    operation = OPERATIONS["ListTree"]
    error = InvalidRequest("'max_nodes' must be from 1 to 10000, but is 0.", field="max_nodes")
    operation.name_for_wire(error)
    assert (error.field, error.message) == ("page_size", "'page_size' must be from 1 to 10000, but is 0.")
    assert str(error) == error.message
    operation.name_for_port(error)
    assert error.field == "max_nodes"


def test_errors_keep_the_names_of_fields_other_than_paging() -> None:
    error = InvalidRequest("'id' must be.", field="id")
    OPERATIONS["ListTree"].name_for_wire(error)
    assert error.field == "id"


@pytest.mark.parametrize(("rpc", "other"), [("GetResponseRecord", "DescribeSession"), ("Sweep", "GetChain")])
def test_a_method_whose_fields_differ_from_its_parameters_is_refused(rpc: str, other: str) -> None:
    given, wanted = STORE.methods[rpc], STORE.methods[other]
    row = Row(rpc, given.row.port, given.row.roles, given.row.deadline_s)
    with pytest.raises(TypeError):
        Operation(Method(rpc, given.service, wanted.request, given.response, False, row))


def test_an_error_without_a_field_is_left_unchanged() -> None:
    error = NotFound("gone")
    OPERATIONS["ListTree"].name_for_wire(error)
    assert error.field is None


class Service:
    @implements(LineageStore.children)
    async def children(self, **named: Any) -> Any:
        return named


RESPONSE = "resp_" + "0" * 48


@pytest.mark.parametrize(
    ("args", "kwargs", "field"),
    [
        (("a b", RESPONSE), {}, "tenant"),
        (("t", "x"), {}, "id"),
        (("t",), {"response_id": "x"}, "id"),
        (("t", RESPONSE), {"limit": 1_001}, "limit"),
    ],
)
async def test_the_error_for_an_invalid_argument_names_its_field(args: Any, kwargs: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await Service().children(*args, **kwargs)
    assert caught.value.field == field


async def test_omitted_arguments_get_defaults_and_none_is_not_checked() -> None:
    named = {"tenant": "t", "response_id": RESPONSE, "cursor": None, "limit": limits.LIST_ITEMS_DEFAULT}
    found: list[Any] = [await Service().children("t", RESPONSE), await Service().children("t", RESPONSE, cursor=None)]
    assert found == [named, named]
    found = [await Service().children(response_id=RESPONSE, tenant="t", limit=2)]
    assert found == [{**named, "limit": 2}]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("t",), {}),
        (("t", RESPONSE, "more"), {}),
        (("t", RESPONSE), {"response_id": RESPONSE}),
        (("t", RESPONSE), {"depth": 1}),
        (("t",), {"depth": 1}),
    ],
)
async def test_missing_or_unknown_arguments_raise_a_type_error(args: Any, kwargs: Any) -> None:
    with pytest.raises(TypeError):
        await Service().children(*args, **kwargs)


def test_an_implemented_method_has_the_name_and_docstring_of_its_port() -> None:
    assert (Service.children.__name__, Service.children.__doc__) == ("children", LineageStore.children.__doc__)


PORT_METHODS = [name for name, _ in inspect.getmembers(FullStore, inspect.isfunction) if not name.startswith("_")]


@pytest.mark.parametrize("name", PORT_METHODS)
def test_every_argument_of_the_ports_has_a_check(name: str) -> None:
    hints = get_type_hints(getattr(FullStore, name), include_extras=True)
    parameters = list(inspect.signature(getattr(FullStore, name)).parameters)[1:]
    assert {each for each in parameters if check_of(hints[each]) is None} <= UNCHECKED


@pytest.mark.parametrize("size", [10, 2 * 2**20])
async def test_an_answer_with_much_content_is_encode_beside_the_event_loop(size: int) -> None:
    """200 answers of 16 MB stood for eight seconds in one iteration of the loop."""
    record, threads = draft(body=b"x" * size), list[int]()

    class Spied(Operation):
        def _encode(self, result: Any) -> bytes:
            threads.append(threading.get_ident())
            return super()._encode(result)

    async def get(_tenant: str, response_id: str) -> Any:
        return record

    method = STORE.methods["GetResponseRecord"]
    handle = Spied(method).handler(get)
    answer: Any = await handle(method.request.message(id=record.id), Call("t", None))  # type: ignore[misc]
    assert method.response.message.FromString(encode(method.response, answer)).record.body == record.body
    assert len(threads) == (size > 2**20)
    assert threading.get_ident() not in threads


def test_content_is_counted_in_whatever_a_result_is_made_of() -> None:
    record = draft(body=b"x" * 100, input_items=b"[]", output_items=b"[]")
    assert content_bytes_of([record, record]) == 208
    assert content_bytes_of(TurnStart(History(b"[1,2]"), replay=record)) == 109
    assert content_bytes_of(None) == content_bytes_of("text") == 0
