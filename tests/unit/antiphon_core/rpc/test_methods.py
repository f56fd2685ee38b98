"""The table of methods. tests/unit/repo/test_protos.py compares its rows with the .proto files."""

from __future__ import annotations

import inspect

import pytest

from antiphon_core import limits
from antiphon_core.rpc.methods import APIS, STORE
from antiphon_core.rpc.roles import Role
from antiphon_core.rpc.services import Api, Repeat

METHODS = [method for api in APIS for method in api.methods.values()]


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_both_classes_of_a_message_have_the_same_name(api: Api) -> None:
    for method in api.methods.values():
        for kind in (method.request, method.response):
            assert kind.message.__name__ == kind.strict.__name__ == kind.name


def test_the_store_has_two_packages_in_one_api() -> None:
    services = {service.full_name.rpartition(".")[::2] for service in STORE.services}
    public, internal = "antiphon.store.v1", "antiphon.store.internal.v1"
    assert services == {(public, name) for name in ("Responses", "Trees", "Sessions", "Conversations")} | {
        (internal, name) for name in ("Turns", "EventLogs", "Jobs", "Prompts", "Approvals", "Quotas", "Retention")
    }
    assert STORE.name == "antiphon.store.v1.Responses"


def test_only_streams_without_an_end_have_no_deadline() -> None:
    assert {method.name for method in METHODS if method.deadline_s is None} == {"Generate", "CallTool", "ReadEvents"}


def test_rpcs_that_wait_may_wait_as_long_as_the_store_allows() -> None:
    for name in ("AcquireSession", "BeginTurn", "ClaimJob"):
        deadline_s = STORE.methods[name].deadline_s
        assert deadline_s is not None
        assert deadline_s * 1000 > limits.LEASE_WAIT_MS_MAX


def test_internal_methods_are_for_gateways_and_operators() -> None:
    for method in STORE.methods.values():
        is_internal = ".internal." in method.service
        assert method.row.roles.isdisjoint({Role.READER, Role.WRITER}) == is_internal, method.path


def test_gateways_have_the_methods_of_writers_and_writers_those_of_readers() -> None:
    for method in STORE.methods.values():
        roles = method.row.roles
        assert Role.WRITER not in roles or Role.GATEWAY in roles, method.path
        assert Role.READER not in roles or Role.WRITER in roles, method.path


def test_methods_that_are_not_idempotent_are_marked_keyed_or_held() -> None:
    keyed = {method.name for method in METHODS if method.row.repeat is Repeat.KEYED}
    assert keyed == {"TakeQuota", "CallTool"}
    assert {method.name for method in METHODS if method.row.repeat is Repeat.ITEMS} == {"AddConversationItems"}
    assert {method.name for method in METHODS if method.row.repeat is Repeat.HELD} == {"ClaimJob"}


def test_every_method_of_the_ports_has_a_row() -> None:
    served = {method.row.port for method in METHODS}
    for port in {method.row.port.__qualname__.partition(".")[0]: method.row.port for method in METHODS}.values():
        protocol = getattr(inspect.getmodule(port), port.__qualname__.partition(".")[0])
        for name, member in inspect.getmembers(protocol, inspect.isfunction):
            if not name.startswith("_") and name != "ready":
                assert member in served, f"{protocol.__name__}.{name}"
