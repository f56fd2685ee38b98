"""Triton models with the text-level signatures of TensorRT-LLM and vLLM, on llama.cpp: see dialects.py.

They are for tests: the same model with each signature that a fleet may have. This file has only the Triton side, like
model.py of the model `tensorrt_llm`, which serves ids.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import triton_python_backend_utils as pb_utils
from dialects import DIALECTS
from llama_engine import LlamaEngine
from sequences import RequestError, Sequence
from tensors import FINAL, respond, send_error
from wording import Vocabulary, Wording

PREPARING_THREADS = 2


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        parameters = config["parameters"]

        def number(key):
            return int(parameters[key]["string_value"])

        self.batched = config["max_batch_size"] > 0
        self.types = {output["name"]: output["data_type"].removeprefix("TYPE_") for output in config["output"]}
        self.dialect = DIALECTS[config["name"]]
        self.engine = LlamaEngine(
            parameters["gguf_path"]["string_value"],
            context_length=number("context_length"),
            slots=number("slots"),
            threads=number("threads"),
            prefill_threads=number("prefill_threads"),
        )
        self.vocabulary = Vocabulary(self.engine.vocabulary)
        self.preparing = ThreadPoolExecutor(PREPARING_THREADS, thread_name_prefix="prepare")

    def execute(self, requests):
        """Does not block: the engine's thread answers each request through its response sender."""
        for request in requests:
            self.preparing.submit(self.start, request, request.get_response_sender())

    def finalize(self):
        self.preparing.shutdown()
        self.engine.close()

    def start(self, request, sender):
        try:
            self.engine.submit(self.sequence(request, sender))
        except (RequestError, ValueError) as error:
            send_error(sender, f"Error generating request: {error}", pb_utils.TritonError.INVALID_ARG)
        except Exception as error:  # noqa: BLE001 - a request must always get an answer
            pb_utils.Logger.log_error(f"request_id={request.request_id()} failed: {error!r}")
            send_error(sender, f"the model failed: {error!r}", pb_utils.TritonError.INTERNAL)

    def sequence(self, request, sender):
        asked = self.dialect(request)
        prompt = self.vocabulary.ids_of(asked.prompt)
        whole = asked.strips_stop_words or asked.accumulates
        wording = Wording(asked.stop_words, whole=whole, strips=asked.strips_stop_words)
        reply = Reply(self, sender, request.request_id(), asked, len(prompt), wording)
        by_ids = [] if asked.strips_stop_words else [self.vocabulary.ids_of(word) for word in asked.stop_words]
        reply.sequence = Sequence(
            prompt=prompt,
            tokens_max=asked.tokens_max,
            end_id=self.vocabulary.end_id if asked.end_id is None else asked.end_id,
            stop_words=(*map(tuple, by_ids), *((stop_id,) for stop_id in asked.stop_ids)),
            sampling=asked.sampling,
            want_log_probs=asked.top_log_probs is not None,
            on_token=reply.on_token,
            on_end=reply.on_end,
            is_cancelled=reply.is_cancelled,
            top_log_probs=asked.top_log_probs or 0,
        )
        return reply.sequence

    def response(self, outputs):
        """A response with these outputs, as tensors of the types that the configuration declares."""
        return pb_utils.InferenceResponse([self.tensor(name, value) for name, value in outputs.items()])

    def tensor(self, name, value):
        if isinstance(value, str):
            return pb_utils.Tensor(name, np.array([value.encode()], dtype=object))
        dtype = pb_utils.triton_string_to_numpy(f"TYPE_{self.types[name]}")
        return pb_utils.Tensor(name, np.array([[value]] if self.batched else [value], dtype=dtype))


@dataclass(eq=False)
class Reply:
    """The answer to one request."""

    model: TritonPythonModel
    sender: object
    request_id: str
    asked: object
    prompt_count: int
    wording: Wording
    count: int = 0
    unsent: int = 0
    reason: str = ""
    sequence: Sequence | None = None
    places: list = field(default_factory=list)

    def is_cancelled(self):
        return self.wording.is_stopped or self.sender.is_cancelled()

    def on_token(self, token, log_prob, last):
        self.count += 1
        self.unsent += 1
        self.places.append([(token, log_prob), *self.sequence.likeliest])
        is_end = token in self.asked.stop_ids
        text = "" if is_end else self.wording.add(self.model.vocabulary.bytes_of(token))
        if is_end:
            self.reason = "stop"
        elif self.count >= self.asked.tokens_max:
            self.reason = "length"
        if self.asked.is_streaming and not self.wording.is_stopped:
            self.send(self.wording.so_far if self.asked.accumulates else text)

    def on_end(self, error):
        if error is not None:
            send_error(self.sender, error, pb_utils.TritonError.INTERNAL)
            return
        if self.sender.is_cancelled():
            pb_utils.Logger.log_info(f"cancelled after {self.count} tokens request_id={self.request_id}")
        if not self.reason and not self.wording.is_stopped:
            self.unsent += self.asked.counts_last_token
        text = self.wording.finish(tells_cut_characters=self.asked.tells_cut_characters)
        if not self.asked.is_streaming:
            text = (self.asked.prompt if self.asked.echo_prompt else "") + self.wording.so_far
        elif self.asked.accumulates:
            text = self.wording.so_far
        self.send(text, flags=FINAL, reason=self.reason or "stop")

    def send(self, text, *, flags=0, reason=""):
        outputs = self.asked.outputs(text, self.unsent, self.prompt_count, reason)
        outputs |= self.asked.log_probs(self.places, self.model.vocabulary)
        self.unsent, self.places = 0, []
        respond(self.sender, self.model.response(outputs), flags=flags)
