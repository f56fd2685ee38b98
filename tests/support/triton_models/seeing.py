"""A Triton model for tests that answers with its prompt and its images as JSON.

The model has the inputs that its configuration declares: those of a multimodal model of the vLLM backend, or of
TensorRT-LLM.
"""

import json

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
IMAGES = ("image", "image_url_input", "image_url")


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            seen = {"prompt": texts(request, "text_input")[0], "images": []}
            for name in IMAGES:
                seen["images"] += texts(request, name)
            said = np.array([json.dumps(seen).encode()], dtype=object)
            sender = request.get_response_sender()
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("text_output", said)]), flags=FINAL)


def texts(request, name):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return [] if tensor is None else [value.decode() for value in tensor.as_numpy().reshape(-1)]
