"""Reads values from Triton's tensors, and sends tensors as responses. All models of this repository use it."""

import math

import numpy as np
import triton_python_backend_utils as pb_utils
from sequences import RequestError

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


def finite(request, name, default):
    number = scalar(request, name, default)
    if not math.isfinite(number):
        raise RequestError(f"{name} must be a finite number")
    return number


def values(request, name):
    tensor_in = pb_utils.get_input_tensor_by_name(request, name)
    return [] if tensor_in is None else tensor_in.as_numpy().reshape(-1).tolist()


def scalar(request, name, default):
    found = values(request, name)
    return found[0] if found else default


def tensor(name, nested, dtype):
    return pb_utils.Tensor(name, np.array(nested, dtype=dtype))


def send_error(sender, message, code):
    respond(sender, pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code)), flags=FINAL)


def respond(sender, response, flags):
    try:
        sender.send(response, flags=flags)
    except Exception as error:  # noqa: BLE001 - the client is gone; is_cancelled ends the sequence at the next step
        pb_utils.Logger.log_warn(f"response not sent: {error}")


def texts(request, name):
    return [text.decode() for text in values(request, name)]
