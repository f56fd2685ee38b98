"""Translates Triton's errors into Antiphon's. Clients get messages of our own. The log gets the texts of the transport,
but not those of Triton's backends, which may repeat the prompt.

Errors of a stream come in band, without a code, so only their text tells them apart.

A server that has never heard of the model has to be corrected by an operator, as with the servers of chat_errors.py: a
client or a worker that retries would wait for minutes. A model that is known and not ready may be loading.

When an RPC is cancelled from this side, by closing its channel for example, grpc.aio raises asyncio.CancelledError in
the task that waits for the RPC, although nothing cancelled that task. `Task.cancelling` tells the two cancellations
apart.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from antiphon_core.errors import (
    AntiphonError,
    ContextLengthExceeded,
    EngineFault,
    EngineMisconfigured,
    EngineTimeout,
    EngineUnavailable,
)
from antiphon_core.limits import ENGINE_ERROR_CHARS_MAX
from antiphon_core.telemetry import remedies
from antiphon_http2.errors import GrpcError
from antiphon_translator.engines import guide_errors, length_errors, secret_texts

log = logging.getLogger(__name__)

_NO_MODEL = "has no such model"
_IN_BAND: tuple[tuple[re.Pattern[str], type[AntiphonError], str], ...] = (
    (re.compile(r"unknown model: .{1,300} is not found"), EngineMisconfigured, _NO_MODEL),
    (re.compile(r"unknown model"), EngineUnavailable, "has no version of the model ready"),
    (re.compile(r"not (?:at )?ready|is unloaded|unavailable"), EngineUnavailable, "does not have the model ready"),
    (re.compile(r"stub process .{1,200} is not healthy"), EngineUnavailable, "lost the process that runs the model"),
    (re.compile(r"exceeds maximum queue size"), EngineUnavailable, "has too many requests waiting"),
    (re.compile(r"timeout expired|timed out"), EngineTimeout, "gave up on the request after its own time limit"),
    (
        re.compile(r"unexpected inference input|missing required input|unexpected shape"),
        EngineFault,
        "rejects the inputs",
    ),
)
"""(pattern of the text in lower case, error, message to the client). The first row that matches counts."""

_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
_TRANSPORT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED)
_BY_CODE: dict[grpc.StatusCode, tuple[type[AntiphonError], str]] = {
    grpc.StatusCode.UNAVAILABLE: (EngineUnavailable, "cannot be reached"),
    grpc.StatusCode.CANCELLED: (EngineUnavailable, "closed the connection"),
    grpc.StatusCode.NOT_FOUND: (EngineMisconfigured, _NO_MODEL),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (EngineUnavailable, "is overloaded"),
    grpc.StatusCode.DEADLINE_EXCEEDED: (EngineTimeout, "did not answer in time"),
}


def from_text(text: str, *, model: str) -> AntiphonError:
    """The error that an in-band error message of a stream stands for. A backend may repeat the prompt in it, so only
    its first ENGINE_ERROR_CHARS_MAX characters are looked at."""
    length, text = len(text), text[:ENGINE_ERROR_CHARS_MAX]
    if (guide_error := guide_errors.of_text(text, server=f"The Triton server of model '{model}'")) is not None:
        return guide_error
    if length_errors.is_in(text):
        log.warning("model '%s': Triton's engine takes shorter prompts than the profile's context_length", model)
        return ContextLengthExceeded(f"The prompt is too long for the engine of model '{model}'.", field="input")
    lowered = text.lower()
    for pattern, error, what in _IN_BAND:
        if pattern.search(lowered):
            log.warning("model '%s': Triton %s", model, what)
            return _error(error, what, model=model)
    log.warning("model '%s': Triton reports an error of %d characters, which its own log has", model, length)
    return EngineFault(f"The Triton server of model '{model}' reported an error.")


@contextmanager
def translate_errors(model: str, *, level: int = logging.WARNING) -> Iterator[None]:
    """Translates the errors of grpc.aio and antiphon_http2, and logs them at `level`. A cancellation of the
    current task passes through."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise _from_rpc(error.code(), error.details(), model=model, level=level) from error
    except GrpcError as error:
        raise _from_rpc(_CODES[error.status], error.message, model=model, level=level) from error
    except (grpc.aio.UsageError, asyncio.InvalidStateError) as error:  # the channel, or the RPC, is closed already
        raise EngineUnavailable(f"The connection to the Triton server of model '{model}' is closed.") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise EngineUnavailable(f"The connection to the Triton server of model '{model}' was closed.") from error


def _from_rpc(code: grpc.StatusCode, details: str | None, *, model: str, level: int) -> AntiphonError:
    """The error that a failed RPC stands for."""
    # Details of the transport name addresses, which operators need.
    is_shown = code in _TRANSPORT
    shown = (
        secret_texts.mask_secrets(details or "") if is_shown else f"{len(details or '')} characters that are not logged"
    )
    log.log(level, "model '%s': RPC to Triton failed: %s %s", model, code, shown)
    kind, what = _BY_CODE.get(code, (EngineFault, "reported an error"))
    return _error(kind, what, model=model)


def _error(kind: type[AntiphonError], what: str, *, model: str) -> AntiphonError:
    finding = f"The Triton server of model '{model}' {what}"
    if kind is EngineMisconfigured:
        log.error("model '%s': %s", model, finding, extra=remedies.CHECK_TRITON_MODEL)
        return kind(f"{finding}. Only an operator of this service can correct that.")
    return kind(f"{finding}.")
