from __future__ import annotations

import asyncio
from time import thread_time

import grpc
import grpc.aio
import pytest

from antiphon_core.errors import (
    AntiphonError,
    ContextLengthExceeded,
    EngineFault,
    EngineMisconfigured,
    EngineTimeout,
    EngineUnavailable,
    InvalidRequest,
)
from antiphon_http2.errors import GrpcError
from antiphon_translator.engines.triton_errors import from_text, translate_errors

IN_BAND = [
    ("Request for unknown model: 'nope' is not found", EngineMisconfigured),
    ("Request for unknown model: 'm' has no available versions", EngineUnavailable),
    ("Model 'm' version 1 is not at ready state", EngineUnavailable),
    (
        "Failed to process the request(s) for model instance 'm_0_0': Stub process 'm_0_0' is not healthy.",
        EngineUnavailable,
    ),
    ("Exceeds maximum queue size", EngineUnavailable),
    ("Request timeout expired", EngineTimeout),
    ("unexpected inference input 'x' for model 'y'", EngineFault),
    ("expected number of inputs between 2 and 36 but got 1 inputs for model 'm'", EngineFault),
    ("Error generating request: out of paper", EngineFault),
    ("guided_decoding_guide is not a valid regex: unbalanced", InvalidRequest),
    ("", EngineFault),
    (
        "Prompt length (5000) exceeds maximum input length (4096). Set log level to info and check logs.",
        ContextLengthExceeded,
    ),
    ("The decoder prompt (length 9) is longer than the maximum model length of 8.", ContextLengthExceeded),
]


@pytest.mark.parametrize(("text", "expected"), IN_BAND)
def test_in_band_error_is_classified_by_its_text(text: str, expected: type[AntiphonError]) -> None:
    error = from_text(text, model="m")
    assert type(error) is expected
    assert "'m'" in error.message


def test_raw_error_text_is_neither_logged_nor_in_the_error(caplog: pytest.LogCaptureFixture) -> None:
    error = from_text("Error: /models/secret/path", model="m")
    assert "secret" not in error.message
    assert "/models/secret/path" not in caplog.text


def test_long_text_of_a_backend_is_read_in_milliseconds() -> None:
    """A text of a million characters took more than a minute."""
    began_s = thread_time()
    from_text("stub process " * 80_000, model="m")
    assert thread_time() - began_s < 0.5


CODES = [
    (grpc.StatusCode.UNAVAILABLE, EngineUnavailable),
    (grpc.StatusCode.CANCELLED, EngineUnavailable),
    (grpc.StatusCode.NOT_FOUND, EngineMisconfigured),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, EngineUnavailable),
    (grpc.StatusCode.DEADLINE_EXCEEDED, EngineTimeout),
    (grpc.StatusCode.INTERNAL, EngineFault),
    (grpc.StatusCode.UNKNOWN, EngineFault),
]


@pytest.mark.parametrize(("code", "expected"), CODES)
def test_failed_rpc_is_classified_by_its_status_code(code: grpc.StatusCode, expected: type[AntiphonError]) -> None:
    with pytest.raises(expected) as caught, translate_errors("m"):
        raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details="secret")
    assert type(caught.value) is expected
    assert "secret" not in caught.value.message
    with pytest.raises(expected) as caught, translate_errors("m"):
        raise GrpcError(code.value[0], "secret")
    assert type(caught.value) is expected
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("error", [grpc.aio.UsageError("closed"), asyncio.InvalidStateError("finished")])
def test_a_closed_connection_is_unavailable(error: Exception) -> None:
    with pytest.raises(EngineUnavailable), translate_errors("m"):
        raise error


async def test_cancelled_rpc_is_unavailable_and_no_task_cancellation() -> None:
    with pytest.raises(EngineUnavailable), translate_errors("m"):
        raise asyncio.CancelledError


async def test_a_cancelled_task_stays_cancelled() -> None:
    async def wait() -> None:
        with translate_errors("m"):
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
