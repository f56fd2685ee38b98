from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from aiohttp import StreamReader, web
from aiohttp.test_utils import make_mocked_request

from antiphon_core import audit
from antiphon_core.clock import ManualClock
from antiphon_core.errors import InvalidApiKey, RequestRateExceeded
from antiphon_core.ids import RandomIds
from antiphon_core.jsons import loads
from antiphon_core.process_load import ProcessLoad
from antiphon_edge.access_checks import AccessChecks, OwnPages
from antiphon_edge.access_settings import AccessSettings
from antiphon_edge.callers.authentication import Authenticator
from antiphon_edge.http.cors import Cors
from antiphon_edge.http.request_ids import ROUTE
from antiphon_edge.operations.routing import routes_of, serves
from antiphon_edge.operations.table import Access
from antiphon_edge.quotas import admission
from antiphon_edge.quotas.counting import OwnShare
from antiphon_edge.quotas.load_shedding import LoadLimits, LoadShedder
from antiphon_edge.quotas.long_work import LongWork
from antiphon_edge.quotas.rate_limits import RateLimiter, RateLimits

PAGE = {"Origin": "https://page.example"}
PREFLIGHT = PAGE | {"Access-Control-Request-Method": "POST"}
UNKNOWN_ENCODING = {"Content-Encoding": "br"}
CHECKED = "/v1/responses"


class Handlers:
    @serves("createResponse")
    async def create(self, _request: web.Request) -> web.Response:
        return web.Response()

    @serves("listModels")
    async def models(self, _request: web.Request) -> web.Response:
        return web.Response()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app(clock: ManualClock) -> web.Application:
    """An application that admits one request a minute."""
    app = web.Application()
    app.add_routes(routes_of(Handlers()))
    shedder = LoadShedder(LoadLimits(), ProcessLoad(memory_limit_bytes=2**50))
    limits, counts = RateLimits(requests_per_minute=1), OwnShare(1, clock)
    admission.set_limiter(app, RateLimiter(limits, counts, clock=clock, ids=RandomIds(), shedder=shedder))
    admission.set_long_work(app, LongWork())
    return app


def locked(clock: ManualClock) -> Authenticator:
    """Accepts requests from a proxy only, and so none of these."""
    return Authenticator.of(AccessSettings(trusted_proxies=("10.0.0.0/8",)), clock)


async def asked(
    app: web.Application, checks: AccessChecks, method: str, path: str, headers: dict[str, str]
) -> tuple[int, web.Request]:
    """The status with which the checks or the handler answer a request."""
    body = StreamReader(mock.Mock(), 2**16, loop=asyncio.get_running_loop())
    body.feed_data(b"{}")
    request = make_mocked_request(method, path, headers={"Host": "localhost"} | headers, app=app, payload=body)
    request._match_info = info = await app.router.resolve(request)
    info.add_app(app)
    info.current_app = app
    check = checks.middleware()
    try:
        answer = await check(request, info.handler)  # type: ignore[call-arg]
    except InvalidApiKey:
        return 401, request
    except RequestRateExceeded:
        return 429, request
    return answer.status, request


@pytest.mark.parametrize(
    ("headers", "statuses"),
    [
        (PREFLIGHT, (204, 204)),
        (PAGE | UNKNOWN_ENCODING, (403, 401)),
        (UNKNOWN_ENCODING, (415, 401)),
        ({}, (429, 401)),
    ],
)
async def test_a_request_is_rejected_by_the_first_check_that_it_fails(
    app: web.Application, clock: ManualClock, headers: dict[str, str], statuses: tuple[int, int]
) -> None:
    opened = AccessChecks(Authenticator(), cors=Cors(["https://other.example"]), own_pages=OwnPages())
    method = "OPTIONS" if headers is PREFLIGHT else "POST"
    if headers is PREFLIGHT:
        opened = AccessChecks(Authenticator(), cors=Cors(["https://page.example"]))
    closed = AccessChecks(locked(clock), cors=opened.cors)
    if not headers:
        assert (await asked(app, opened, method, CHECKED, headers))[0] == 200  # the only one in a minute
    for checks, status in zip((opened, closed), statuses, strict=True):
        found, request = await asked(app, checks, method, CHECKED, headers)
        assert found == status
        assert request.get(ROUTE) == (CHECKED if method == "POST" else None)


async def test_an_open_operation_needs_no_key_and_is_not_counted(app: web.Application, clock: ManualClock) -> None:
    checks = AccessChecks(locked(clock), opened={Access.MODELS})
    assert [(await asked(app, checks, "GET", "/v1/models", {}))[0] for _ in range(3)] == [200] * 3
    assert (await asked(app, AccessChecks(locked(clock)), "GET", "/v1/models", {}))[0] == 401


@pytest.fixture
def audit_file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "audit"
    audit.configure(path, is_required=True)
    yield path
    audit.configure(None)


def results_in(audit_file: Path) -> list[tuple[str, str]]:
    lines = map(loads, audit_file.read_bytes().splitlines())
    return [(line["action"], line["result"]) for line in lines]


async def test_a_rejected_request_has_its_audit_line_and_only_an_authenticated_one_a_start(
    app: web.Application, clock: ManualClock, audit_file: Path
) -> None:
    await asked(app, AccessChecks(Authenticator()), "POST", CHECKED, UNKNOWN_ENCODING)
    await asked(app, AccessChecks(locked(clock)), "POST", CHECKED, {})
    await asked(app, AccessChecks(locked(clock), opened={Access.MODELS}), "GET", "/v1/models", {})
    assert results_in(audit_file) == [
        (f"POST {CHECKED}", "started"),
        (f"POST {CHECKED}", "415"),
        (f"POST {CHECKED}", "401"),
    ]
