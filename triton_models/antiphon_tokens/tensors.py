"""Reads values from the tensors of requests, and sends tensors as responses. Nothing else touches Triton's tensors."""

import math
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from antiphon_tokens.generation import RequestError

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


def array(request: Any, name: str) -> Any:
    """The array of an input; None without it."""
    tensor_in = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor_in is None else tensor_in.as_numpy()


def values(request: Any, name: str) -> list[Any]:
    found = array(request, name)
    return [] if found is None else list(found.reshape(-1).tolist())


def scalar(request: Any, name: str, default: Any) -> Any:
    found = values(request, name)
    return found[0] if found else default


def finite(request: Any, name: str, default: float) -> float:
    number = float(scalar(request, name, default))
    if not math.isfinite(number):
        raise RequestError(f"{name} must be a finite number")
    return number


def texts(request: Any, name: str) -> list[str]:
    try:
        return [text.decode() for text in values(request, name)]
    except UnicodeDecodeError as error:
        raise RequestError(f"{name} must be UTF-8") from error


def text(request: Any, name: str) -> str | None:
    """The text of an input; None if it is missing or empty."""
    found = texts(request, name)
    return found[0] or None if found else None


def numbers(name: str, nested: Any, dtype: str) -> Any:
    """An output of numbers; `nested` are lists in its shape."""
    return pb_utils.Tensor(name, np.array(nested, dtype=dtype))


def words(name: str, nested: Any) -> Any:
    """An output of texts."""
    return pb_utils.Tensor(name, np.array(nested, dtype=object))


def respond(sender: Any, outputs: list[Any], *, is_final: bool) -> None:
    _send(sender, pb_utils.InferenceResponse(outputs), FINAL if is_final else 0)


def respond_error(sender: Any, message: str, *, is_request: bool) -> None:
    """Sends an error as the last response. `is_request`: the request is at fault, and not the model."""
    kinds = pb_utils.TritonError  # Triton adds its classes after this module is imported
    code = kinds.INVALID_ARG if is_request else kinds.INTERNAL
    _send(sender, pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code)), FINAL)


def close(sender: Any) -> None:
    """Ends a request without a response."""
    sender.send(flags=FINAL)


def _send(sender: Any, response: Any, flags: int) -> None:
    try:
        sender.send(response, flags=flags)
    except Exception as error:  # noqa: BLE001 - the client is gone, and its generation ends at the next token
        pb_utils.Logger.log_warn(f"response not sent: {error}")
