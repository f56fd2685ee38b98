from __future__ import annotations

import logging

import aiohttp
import pytest

from antiphon_edge.websocket import subprotocols
from tests.support.edge import RunningEdge

OFFERED = ("realtime", "openai-insecure-api-key.canary")


async def test_offered_subprotocols_are_neither_accepted_nor_logged(
    edge: RunningEdge, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = edge.server.url + "/v1/responses"
    async with aiohttp.ClientSession() as session, session.ws_connect(url, protocols=OFFERED) as socket:
        assert socket.protocol is None
    lines = {record.getMessage() for record in caplog.records if record.name == subprotocols.LIBRARY_LOGGER}
    assert lines == {"127.0.0.1 offers subprotocols for a WebSocket; the server supports none"}
    assert "canary" not in caplog.text


def test_library_log_about_subprotocols_is_redacted(caplog: pytest.LogCaptureFixture) -> None:
    subprotocols.redact_log()
    logger = logging.getLogger(subprotocols.LIBRARY_LOGGER)
    logger.warning("canary")
    logger.warning("%(canary)s", {"canary": "canary"})
    assert [record.getMessage().startswith("a client offers") for record in caplog.records] == [True, True]
    assert "canary" not in caplog.text
