"""The first and the last model of a scripted ensemble: text to ids, and ids to text. Every character is an id."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils

END_ID = 0x4E02
"""The id of the character that ends a text: see scripted.py."""


class TritonPythonModel:
    def initialize(self, args):
        inputs = {one["name"] for one in json.loads(args["model_config"])["input"]}
        self.answer = to_ids if "QUERY" in inputs else to_text

    def execute(self, requests):
        return [pb_utils.InferenceResponse(self.answer(request)) for request in requests]


def to_ids(request):
    ids = [ord(letter) for letter in values(request, "QUERY")[0].decode()]
    return [
        tensor("INPUT_ID", [ids]),
        tensor("REQUEST_INPUT_LEN", [[len(ids)]]),
        tensor("REQUEST_OUTPUT_LEN", [values(request, "REQUEST_OUTPUT_LEN")]),
        tensor("OUT_END_ID", [end_id(request)]),
    ]


def end_id(request):
    """The end id of the request, else the own one. The ids of other vocabularies mean nothing here."""
    given = pb_utils.get_input_tensor_by_name(request, "END_ID")
    asked = [END_ID] if given is None else given.as_numpy().reshape(-1).tolist()
    return asked if asked == [-1] else [END_ID]


def to_text(request):
    text = "".join(map(chr, values(request, "TOKENS_BATCH")))
    return [pb_utils.Tensor("OUTPUT", np.array([text.encode()], dtype=object))]


def values(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy().reshape(-1).tolist()


def tensor(name, nested):
    return pb_utils.Tensor(name, np.array(nested, dtype=np.int32))
