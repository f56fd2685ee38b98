from __future__ import annotations

from aiohttp.test_utils import make_mocked_request

from antiphon_core.rpc.call_metadata import DEFAULT_TENANT
from antiphon_edge.callers.authentication import TENANT, tenant_of


def test_request_has_the_tenant_that_was_set() -> None:
    request = make_mocked_request("GET", "/")
    assert tenant_of(request) == DEFAULT_TENANT
    request[TENANT] = "acme"
    assert tenant_of(request) == "acme"
