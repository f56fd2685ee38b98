"""Triton models with the text-level signatures of TensorRT-LLM and vLLM, on llama.cpp: see dialects.py.

They are for tests: the same model with each signature that a fleet may have. This file has only the Triton side, like
`antiphon_tokens.model`, which serves ids.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from dialects import DIALECTS
from wording import Vocabulary, Wording

from antiphon_tokens import arguments, tensors
from antiphon_tokens.engines import llama_cpp
from antiphon_tokens.generation import Generation, Output, RequestError, fit

PREPARING_THREADS = 2


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.batched = config["max_batch_size"] > 0
        self.types = {output["name"]: output["data_type"].removeprefix("TYPE_") for output in config["output"]}
        self.dialect = DIALECTS[config["name"]]
        given = arguments.read(Path(args["model_repository"]) / args["model_version"] / arguments.FILE)
        self.engine = llama_cpp.load(given, frozenset())
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
            asked = self.dialect(request)
            generation = fit(self.generation(asked), self.engine.capabilities().limits)
            self.engine.submit(generation, Reply(self, sender, request.request_id(), asked, generation))
        except (RequestError, ValueError) as error:
            tensors.respond_error(sender, f"Error generating request: {error}", is_request=True)
        except Exception as error:  # noqa: BLE001 - a request must always get an answer
            pb_utils.Logger.log_error(f"request_id={request.request_id()} failed: {error!r}")
            tensors.respond_error(sender, f"the model failed: {error!r}", is_request=False)

    def generation(self, asked):
        by_ids = [] if asked.strips_stop_words else [self.vocabulary.ids_of(word) for word in asked.stop_words]
        return Generation(
            prompt=self.vocabulary.ids_of(asked.prompt),
            tokens_max=asked.tokens_max,
            end_id=self.end_id(asked),
            stop_words=(*map(tuple, by_ids), *((stop_id,) for stop_id in asked.stop_ids)),
            sampling=asked.sampling,
            guide=asked.guide,
            log_probs=asked.top_log_probs is not None,
            top_log_probs=asked.top_log_probs or 0,
        )

    def end_id(self, asked):
        if asked.end_id is None:
            return self.vocabulary.end_id
        return asked.end_id if asked.end_id >= 0 else None

    def outputs(self, named):
        """The tensors of these outputs, of the types that the configuration declares."""
        return [self.tensor(name, value) for name, value in named.items()]

    def tensor(self, name, value):
        if isinstance(value, str):
            return tensors.words(name, [value.encode()])
        dtype = np.dtype(pb_utils.triton_string_to_numpy(f"TYPE_{self.types[name]}"))
        return tensors.numbers(name, [[value]] if self.batched else [value], dtype)


@dataclass(eq=False)
class Reply:
    """The answer to one request."""

    model: TritonPythonModel
    sender: object
    request_id: str
    asked: object
    generation: Generation
    count: int = 0
    unsent: int = 0
    reason: str = ""
    places: list = field(default_factory=list)

    def __post_init__(self):
        whole = self.asked.strips_stop_words or self.asked.accumulates
        self.wording = Wording(self.asked.stop_words, whole=whole, strips=self.asked.strips_stop_words)
        self.output = Output(self.generation)

    def on_tokens(self, new, _facts):
        for token in self.output.take(new):
            self.add(token)
        return self.output.finish is None and not self.wording.is_stopped and not self.sender.is_cancelled()

    def add(self, token):
        self.count += 1
        self.unsent += 1
        self.places.append([(token.id, token.log_prob), *token.likeliest])
        is_end = token.id in self.asked.stop_ids
        text = "" if is_end else self.wording.add(self.model.vocabulary.bytes_of(token.id))
        if is_end:
            self.reason = "stop"
        elif self.count >= self.generation.tokens_max:
            self.reason = "length"
        if self.asked.is_streaming and not self.wording.is_stopped:
            self.send(self.wording.so_far if self.asked.accumulates else text)

    def on_error(self, message, *, is_request):
        tensors.respond_error(self.sender, message, is_request=is_request)

    def on_end(self, _finish):
        if self.sender.is_cancelled():
            pb_utils.Logger.log_info(f"cancelled after {self.count} tokens request_id={self.request_id}")
        if not self.reason and not self.wording.is_stopped:
            self.unsent += self.asked.counts_last_token
        text = self.wording.finish(tells_cut_characters=self.asked.tells_cut_characters)
        if not self.asked.is_streaming:
            text = (self.asked.prompt if self.asked.echo_prompt else "") + self.wording.so_far
        elif self.asked.accumulates:
            text = self.wording.so_far
        self.send(text, is_final=True, reason=self.reason or "stop")

    def send(self, text, *, is_final=False, reason=""):
        named = self.asked.outputs(text, self.unsent, len(self.generation.prompt), reason)
        named |= self.asked.log_probs(self.places, self.model.vocabulary)
        self.unsent, self.places = 0, []
        tensors.respond(self.sender, self.model.outputs(named), is_final=is_final)
