"""Reading /metrics of a server, and what a server may send instead."""

from __future__ import annotations

import pytest

from antiphon_core.errors import EngineUnavailable
from antiphon_core.limits import ENGINE_METRICS_BYTES_MAX
from antiphon_translator.engines.metrics_page import fetch
from tests.support.metrics_server import metrics_server
from tests.support.ports import free_ports
from tests.support.waiting import WAIT_MAX_S

OK = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n"


async def test_text_behind_the_head_is_the_metrics() -> None:
    async with metrics_server(OK + b"a 1\n\r\n\r\nb 2\n") as port:
        assert await fetch("127.0.0.1", port, timeout_s=WAIT_MAX_S) == "a 1\n\r\n\r\nb 2\n"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "has no metrics"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "has no metrics"),
        (b"", "has no metrics"),
        (OK + b"x" * ENGINE_METRICS_BYTES_MAX, "ENGINE_METRICS_BYTES_MAX"),
    ],
)
async def test_other_answers_are_unavailable(answer: bytes, words: str) -> None:
    async with metrics_server(answer) as port:
        with pytest.raises(EngineUnavailable, match=words):
            await fetch("127.0.0.1", port, timeout_s=WAIT_MAX_S)


async def test_server_that_is_down_or_silent_is_unavailable() -> None:
    (port,) = free_ports(1)
    with pytest.raises(EngineUnavailable, match="cannot be read"):
        await fetch("127.0.0.1", port, timeout_s=WAIT_MAX_S)
    async with metrics_server(None) as silent:
        with pytest.raises(EngineUnavailable, match="did not come within"):
            await fetch("127.0.0.1", silent, timeout_s=0.01)
