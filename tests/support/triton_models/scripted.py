"""A Triton model with any of the four signatures and no language model behind it, for tests.

The model repeats the prompt's own ids, one response every `delay_ms`, until the length or the end id. If `says` has a
JSON list of ids, a JSON text or a JSON list of texts, the model answers once with these. In the text-level signatures
every character, or every text of the list, stands for an id. If a prompt of ids ends with the beginning of `says`, the
model continues after it, like a language model. A request for an adapter is answered with the adapter only. `behaviour`
is the fault after `after_tokens` ids:

    paced   nothing
    stall   it stops answering and never finishes
    die     the process of the model ends without a word
    fail    it answers with an error
    coarse  nothing, but every response carries `ids_per_response` ids

A request may set the behaviour if the model `obeys`: a request id that ends with `/fail/2` lets the model fail after
two ids (likewise stall and die), one that ends with `/coarse/4` sends four ids in a response.
"""

import json
import os
import threading
import time
from itertools import cycle, islice

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
LAST_STEP_S = 1.0
"""The time that the step of an ensemble behind this model gets for the ids before an error. Triton drops them when the
error is faster."""
TEXT_END = "\u4e02"
"""The character that ends a text: the character of the id 2."""


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        parameters = config["parameters"]

        def setting(key):
            return parameters[key]["string_value"]

        self.behaviour = setting("behaviour")
        self.delay_s = float(setting("delay_ms")) / 1000
        self.after_tokens = int(setting("after_tokens"))
        self.ids_per_response = int(setting("ids_per_response"))
        self.obeys = setting("obeys") == "True"
        self.says = list(json.loads(parameters["says"]["string_value"])) if "says" in parameters else None
        inputs = {one["name"] for one in config["input"]}
        self.signature = next(signature for name, signature in SIGNATURES.items() if name in inputs)
        self.stopped = set()

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            if scalar(request, "stop", False):
                self.stopped.add(request.request_id())
                sender.send(flags=FINAL)
            else:
                threading.Thread(target=self.answer, args=(request, sender), daemon=True).start()

    def answer(self, request, sender):
        request_id = request.request_id()
        signature = self.signature(request)
        behaviour, after_tokens, ids_per_response = self.asked_to_be(request_id)
        pb_utils.Logger.log_info(f"begun id={request_id}")
        script = signature.adapter or (cycle(signature.prompt) if self.says is None else signature.rest_of(self.says))
        wanted = list(islice(script, signature.length))
        if signature.end in wanted:
            del wanted[wanted.index(signature.end) :]
        sent = 0
        while sent < len(wanted):
            time.sleep(self.delay_s)
            if sender.is_cancelled() or request_id in self.stopped:
                pb_utils.Logger.log_info(f"cancelled after {sent} tokens request_id={request_id}")
                break
            if goes_wrong(behaviour, sent, after_tokens, sender):
                return
            ids = wanted[sent : sent + ids_per_response]
            sent += len(ids)
            sender.send(pb_utils.InferenceResponse(signature.outputs(ids, "None")))
        reason = "length" if sent == signature.length else "stop"
        sender.send(pb_utils.InferenceResponse(signature.outputs([], reason)), flags=FINAL)

    def asked_to_be(self, request_id):
        own = (self.behaviour, self.after_tokens, self.ids_per_response)
        match request_id.split("/")[1:] if self.obeys else ():
            case ["fail" | "stall" | "die" as behaviour, after_tokens]:
                return behaviour, int(after_tokens), self.ids_per_response
            case ["coarse", ids_per_response]:
                return "coarse", self.after_tokens, int(ids_per_response)
        return own


def goes_wrong(behaviour, sent, after_tokens, sender):
    if sent < after_tokens:
        return False
    if behaviour == "die":
        os._exit(1)
    if behaviour == "fail":
        time.sleep(LAST_STEP_S)
        error = pb_utils.TritonError(f"the script says to fail after {sent} tokens")
        sender.send(pb_utils.InferenceResponse(error=error), flags=FINAL)
    while behaviour == "stall":
        time.sleep(60)
    return behaviour == "fail"


class Tokens:
    """The signature of tensorrt_llm."""

    def __init__(self, request):
        self.request = request
        self.prompt = pb_utils.get_input_tensor_by_name(request, "input_ids").as_numpy().reshape(-1).tolist()
        self.length = scalar(request, "request_output_len", 0)
        self.end = scalar(request, "end_id", -1)

    @property
    def adapter(self):
        """Returns the tensor of the requested adapter, or None."""
        task_id = scalar(self.request, "lora_task_id", None)
        return None if task_id is None else [task_id]

    def rest_of(self, says):
        """Returns the ids of `says` after those that the prompt ends with."""
        most = min(len(says), len(self.prompt))
        said = next((count for count in range(most, 0, -1) if self.prompt[-count:] == says[:count]), 0)
        return says[said:]

    def outputs(self, ids, reason):
        return [
            pb_utils.Tensor("output_ids", np.array([[ids]], dtype=np.int32)),
            pb_utils.Tensor("sequence_length", np.array([[len(ids)]], dtype=np.int32)),
            *self.counts(ids, np.int32, [[len(ids)]]),
        ]

    def counts(self, ids, dtype, output_count):
        tensors = []
        if scalar(self.request, "return_num_input_tokens", False):
            count = np.array(output_count, dtype=dtype)
            count.fill(len(self.prompt))
            tensors.append(pb_utils.Tensor("num_input_tokens", count))
        if scalar(self.request, "return_num_output_tokens", False):
            tensors.append(pb_utils.Tensor("num_output_tokens", np.array(output_count, dtype=dtype)))
        return tensors


class Ensemble(Tokens):
    """The signature of ensemble and tensorrt_llm_bls."""

    length_input = "max_tokens"

    def __init__(self, request):
        self.request = request
        self.prompt = list(scalar(request, "text_input", b"").decode())
        self.length = scalar(request, self.length_input, 0)
        self.end = TEXT_END
        self.so_far = ""

    @property
    def adapter(self):
        return [f"[{name}]" for name in super().adapter or []]

    def rest_of(self, says):
        return says

    def outputs(self, ids, reason):
        return [text("text_output", "".join(ids)), *self.counts(ids, np.int32, [[len(ids)]])]


class LlmApi(Ensemble):
    """The signature of the LLM-API model."""

    length_input = "sampling_param_max_tokens"

    def outputs(self, ids, reason):
        self.so_far += "".join(ids)
        return [text("text_output", self.so_far), text("finish_reason", reason)]


class Vllm(Ensemble):
    """The signature of the vLLM backend."""

    def __init__(self, request):
        super().__init__(request)
        self.asked = json.loads(scalar(request, "sampling_parameters", b"{}"))
        self.length = self.asked["max_tokens"]

    @property
    def adapter(self):
        name = self.asked.get("lora_name")
        return name and [f"[{name}]"]

    def outputs(self, ids, reason):
        counts = self.counts(ids, np.uint32, [len(ids)])
        return [text("text_output", "".join(ids)), text("finish_reason", reason), *counts]


SIGNATURES = {
    "input_ids": Tokens,
    "sampling_parameters": Vllm,
    "sampling_param_max_tokens": LlmApi,
    "max_tokens": Ensemble,
}
"""The signatures by an input that only they have. The first input that exists decides."""


def text(name, value):
    return pb_utils.Tensor(name, np.array([value.encode()], dtype=object))


def scalar(request, name, default):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    if tensor is None or tensor.as_numpy().size == 0:
        return default
    value = tensor.as_numpy().reshape(-1)[0]
    return value if isinstance(value, bytes) else value.item()
