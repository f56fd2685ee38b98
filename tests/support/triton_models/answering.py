"""A Triton model for tests that answers by the rules of scripted_answers.py, which is copied beside this file.

The model has the signature of tensorrt_llm, or that of a vLLM backend model with images. For tensorrt_llm,
`vocabulary.json` lists the output of each id: a byte, as a character of latin-1, or a control token.
"""

import json
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from scripted_answers import CONTROL_TOKENS, END, answer, gives_up

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args):
        inputs = {one["name"] for one in json.loads(args["model_config"])["input"]}
        self.signature = Ids if "input_ids" in inputs else Letters

    def execute(self, requests):
        for request in requests:
            self.answer(self.signature(request), request.get_response_sender())

    def answer(self, asked, sender):
        """Sends one response for each id or letter, and one for the end."""
        for piece in asked.pieces[: asked.length]:
            if sender.is_cancelled():
                break
            sender.send(pb_utils.InferenceResponse(asked.outputs(piece)))
        if gives_up(asked.prompt):
            error = pb_utils.TritonError("the script says to fail")
            sender.send(pb_utils.InferenceResponse(error=error), flags=FINAL)
        else:
            sender.send(pb_utils.InferenceResponse(asked.ending()), flags=FINAL)


class Ids:
    """A request to tensorrt_llm."""

    def __init__(self, request):
        vocabulary = json.loads(Path(__file__).with_name("vocabulary.json").read_text("utf-8"))
        self.ids = {text: token_id for token_id, text in enumerate(vocabulary)}
        given = values(request, "input_ids")
        self.prompt = "".join(vocabulary[token_id] for token_id in given).encode("latin-1").decode("utf-8", "replace")
        (self.length,) = values(request, "request_output_len")
        guide = texts(request, "guided_decoding_guide_type") + texts(request, "guided_decoding_guide")
        self.pieces = [token_id for text in answer(self.prompt, guide=guide or None) for token_id in self.spelt(text)]

    def spelt(self, text):
        """Returns the ids of a text."""
        written = [text] if text in CONTROL_TOKENS else text.encode().decode("latin-1")
        return [self.ids[piece] for piece in written]

    def outputs(self, *ids):
        return [
            pb_utils.Tensor("output_ids", np.array([[ids]], dtype=np.int32)),
            pb_utils.Tensor("sequence_length", np.array([[len(ids)]], dtype=np.int32)),
        ]

    def ending(self):
        return self.outputs(self.ids[END]) if len(self.pieces) < self.length else self.outputs()


class Letters:
    """A request to the vLLM backend."""

    def __init__(self, request):
        (self.prompt,) = texts(request, "text_input")
        asked = json.loads(texts(request, "sampling_parameters")[0])
        self.length = asked["max_tokens"]
        guides = json.loads(asked.get("structured_outputs", "{}"))  # at most one guide, its text by its kind
        guide = next(iter(guides.items()), None)
        self.pieces = "".join(answer(self.prompt, images=len(texts(request, "image")), guide=guide))

    def outputs(self, letters, reason="None"):
        return [
            pb_utils.Tensor("text_output", np.array([letters.encode()], dtype=object)),
            pb_utils.Tensor("finish_reason", np.array([reason.encode()], dtype=object)),
            pb_utils.Tensor("num_input_tokens", np.array([len(self.prompt)], dtype=np.uint32)),
            pb_utils.Tensor("num_output_tokens", np.array([len(letters)], dtype=np.uint32)),
        ]

    def ending(self):
        return self.outputs("", "stop" if len(self.pieces) <= self.length else "length")


def texts(request, name):
    return [value.decode() for value in values(request, name)]


def values(request, name):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return [] if tensor is None else tensor.as_numpy().reshape(-1).tolist()
