from __future__ import annotations

import pytest

from antiphon_core import limits
from antiphon_core.rpc.methods import SERVICES, STORE, TRANSLATOR, Service, _service


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.full_name)
def test_both_classes_of_a_message_have_the_same_name(service: Service) -> None:
    for method in service.methods.values():
        for kind in (method.request, method.response):
            assert kind.message.__name__ == kind.strict.__name__ == kind.name


def test_paths_are_those_of_grpc() -> None:
    assert STORE.methods["Get"].path == "/antiphon.store.v1.ResponseStoreService/Get"


def test_only_streams_without_an_end_have_no_deadline() -> None:
    endless = {m.name for service in SERVICES for m in service.methods.values() if m.deadline_s is None}
    assert endless == {"Generate", "ReadEvents"}


def test_rpcs_that_wait_may_wait_as_long_as_the_store_allows() -> None:
    for name in ("AcquireSession", "BeginTurn", "ClaimJob"):
        deadline_s = STORE.methods[name].deadline_s
        assert deadline_s is not None
        assert deadline_s * 1000 > limits.LEASE_WAIT_MS_MAX


def test_a_row_without_a_method_is_refused() -> None:
    with pytest.raises(TypeError, match="Dance"):
        _service(TRANSLATOR.descriptor, {"Generate": None, "CountTokens": 1, "ListModels": 1, "Dance": 1})
