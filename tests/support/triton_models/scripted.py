"""A Triton model with the token-level signature of TensorRT-LLM and no language model behind it, for tests.

It answers with the prompt's own ids, over and over, one response every `delay_ms`, until `request_output_len` or the
end id. `behaviour` says what goes wrong after `after_tokens` ids:

    paced   nothing
    stall   it stops answering and never finishes
    die     the process of the model ends without a word
    fail    it answers with an error
    coarse  nothing, but every response carries `ids_per_response` ids
"""

import json
import os
import threading
import time
from itertools import cycle, islice

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]

        def setting(key):
            return parameters[key]["string_value"]

        self.behaviour = setting("behaviour")
        self.delay_s = float(setting("delay_ms")) / 1000
        self.after_tokens = int(setting("after_tokens"))
        self.ids_per_response = int(setting("ids_per_response"))
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
        prompt = pb_utils.get_input_tensor_by_name(request, "input_ids").as_numpy().reshape(-1).tolist()
        wanted = list(islice(cycle(prompt), scalar(request, "request_output_len", 0)))
        end_id = scalar(request, "end_id", -1)
        if end_id in wanted:
            del wanted[wanted.index(end_id) :]
        sent = 0
        while sent < len(wanted):
            time.sleep(self.delay_s)
            if sender.is_cancelled() or request_id in self.stopped:
                pb_utils.Logger.log_info(f"cancelled after {sent} tokens request_id={request_id}")
                break
            if self.goes_wrong(sent, sender):
                return
            ids = wanted[sent : sent + self.ids_per_response]
            sent += len(ids)
            sender.send(response(request, prompt, ids))
        sender.send(response(request, prompt, []), flags=FINAL)

    def goes_wrong(self, sent, sender):
        if sent < self.after_tokens:
            return False
        if self.behaviour == "die":
            os._exit(1)
        if self.behaviour == "fail":
            error = pb_utils.TritonError(f"the script says to fail after {sent} tokens")
            sender.send(pb_utils.InferenceResponse(error=error), flags=FINAL)
        while self.behaviour == "stall":
            time.sleep(60)
        return self.behaviour == "fail"


def response(request, prompt, ids):
    tensors = [
        pb_utils.Tensor("output_ids", np.array([[ids]], dtype=np.int32)),
        pb_utils.Tensor("sequence_length", np.array([[len(ids)]], dtype=np.int32)),
    ]
    if scalar(request, "return_num_input_tokens", False):
        tensors.append(pb_utils.Tensor("num_input_tokens", np.array([[len(prompt)]], dtype=np.int32)))
    if scalar(request, "return_num_output_tokens", False):
        tensors.append(pb_utils.Tensor("num_output_tokens", np.array([[len(ids)]], dtype=np.int32)))
    return pb_utils.InferenceResponse(tensors)


def scalar(request, name, default):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None or tensor.as_numpy().size == 0 else tensor.as_numpy().reshape(-1)[0].item()
