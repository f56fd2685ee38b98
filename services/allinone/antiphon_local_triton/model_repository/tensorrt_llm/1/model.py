"""Triton model `tensorrt_llm` on llama.cpp: the token-level signature of TensorRT-LLM, served without a GPU.

This file has only the Triton side: it reads tensors, submits a `Sequence` to the engine, and sends responses. It
behaves like the real model where clients rely on that:

* `input_ids` is the whole prompt: nothing is added to it, and it is cut to `input_lengths`.
* A streaming response has the NEW ids only. Without streaming one response has the prompt (unless
  `exclude_input_in_output`) and all generated ids.
* `end_id` ends the generation and is never part of `output_ids`: the last response may hold no id at all. The ids of a
  matched stop word ARE part of the output.
* There is no finish reason; a client compares the number of ids with `request_output_len`.
* A request with `stop` = true and the request id of a running request ends that request.

An addition: with `top_log_probs` the response has that many of the likeliest ids for each new id, likeliest first, in
`top_log_prob_ids` and `top_log_prob_values`.

Errors are sent as responses (TritonError). A cancellation takes effect within one token.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import triton_python_backend_utils as pb_utils
from grammars import Grammars
from llama_engine import LlamaEngine
from sequences import RequestError, Sampling, Sequence
from tensors import FINAL, finite, respond, scalar, send_error, tensor, values

PREPARING_THREADS = 2
TOP_LOG_PROBS_MAX = 20


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]

        def number(key):
            return int(parameters[key]["string_value"])

        gguf = parameters["gguf_path"]["string_value"]
        self.grammars = Grammars(gguf)
        self.engine = LlamaEngine(
            gguf,
            context_length=number("context_length"),
            slots=number("slots"),
            threads=number("threads"),
            prefill_threads=number("prefill_threads"),
        )
        self.running = {}
        self.preparing = ThreadPoolExecutor(PREPARING_THREADS, thread_name_prefix="prepare")

    def execute(self, requests):
        """Does not block: the engine's thread answers each request through its response sender."""
        for request in requests:
            self.preparing.submit(self.start, request, request.get_response_sender())

    def finalize(self):
        self.preparing.shutdown()
        self.grammars.close()
        self.engine.close()

    def start(self, request, sender):
        try:
            if scalar(request, "stop", False):
                self.stop(request.request_id())
                sender.send(flags=FINAL)
            else:
                self.generate(request, Reply.to(request, sender, self.forget))
        except RequestError as error:
            send_error(sender, str(error), pb_utils.TritonError.INVALID_ARG)
        except Exception as error:  # noqa: BLE001 - a request must always get an answer
            pb_utils.Logger.log_error(f"request_id={request.request_id()} failed: {error!r}")
            send_error(sender, f"the model failed: {error!r}", pb_utils.TritonError.INTERNAL)

    def generate(self, request, reply):
        sequence = reply.sequence = read_sequence(request, reply, self.grammars)
        self.running[reply.request_id] = reply
        try:
            self.engine.submit(sequence)
        except RequestError:
            self.forget(reply)
            raise

    def stop(self, request_id):
        if not request_id:
            raise RequestError("a stop request needs the request id of the request to stop")
        reply = self.running.get(request_id)
        if reply is not None:
            reply.is_stopped = True

    def forget(self, reply):
        if self.running.get(reply.request_id) is reply:
            del self.running[reply.request_id]


@dataclass(eq=False)
class Reply:
    """The answer to one request: turns the engine's callbacks into Triton responses."""

    sender: object
    request_id: str
    on_done: object
    prompt: list
    is_streaming: bool
    echo_prompt: bool
    log_probs_wanted: bool
    counts_wanted: tuple
    top_log_probs: int = 0
    sequence: object = None
    is_stopped: bool = False
    final_sent: bool = False
    count: int = 0
    ids: list = field(default_factory=list)
    log_probs: list = field(default_factory=list)
    likeliest: list = field(default_factory=list)
    cumulated_log_prob: float = 0.0

    @classmethod
    def to(cls, request, sender, on_done):
        return cls(
            sender=sender,
            request_id=request.request_id(),
            on_done=on_done,
            prompt=read_prompt(request),
            is_streaming=bool(scalar(request, "streaming", False)),
            echo_prompt=not scalar(request, "exclude_input_in_output", False),
            log_probs_wanted=bool(scalar(request, "return_log_probs", False)),
            top_log_probs=read_top_log_probs(request),
            counts_wanted=(
                bool(scalar(request, "return_num_input_tokens", False)),
                bool(scalar(request, "return_num_output_tokens", False)),
            ),
        )

    def is_cancelled(self):
        return self.is_stopped or self.sender.is_cancelled()

    def on_token(self, token, log_prob, last):
        self.count += 1
        self.cumulated_log_prob += log_prob
        self.ids.append(token)
        self.log_probs.append(log_prob)
        self.likeliest += self.sequence.likeliest
        if self.is_streaming:
            self.send(final=last)

    def on_end(self, error):
        self.on_done(self)
        if error is not None:
            send_error(self.sender, error, pb_utils.TritonError.INTERNAL)
            return
        if self.final_sent:
            return
        if self.is_cancelled():
            pb_utils.Logger.log_info(f"cancelled after {self.count} tokens request_id={self.request_id}")
        self.send(final=True)

    def send(self, *, final):
        """Sends the ids that were not sent yet, possibly none."""
        self.final_sent = final
        respond(self.sender, pb_utils.InferenceResponse(self.tensors()), flags=FINAL if final else 0)
        self.ids, self.log_probs, self.likeliest = [], [], []

    def tensors(self):
        ids = self.ids if self.is_streaming or not self.echo_prompt else [*self.prompt, *self.ids]
        tensors = [
            tensor("output_ids", [[ids]], np.int32),
            tensor("sequence_length", [[len(ids)]], np.int32),
        ]
        if self.log_probs_wanted:
            tensors.append(tensor("cum_log_probs", [[self.cumulated_log_prob]], np.float32))
            tensors.append(tensor("output_log_probs", [[self.log_probs]], np.float32))
        if self.top_log_probs:
            tensors.append(tensor("top_log_prob_ids", [[[token for token, _ in self.likeliest]]], np.int32))
            tensors.append(tensor("top_log_prob_values", [[[value for _, value in self.likeliest]]], np.float32))
        input_count_wanted, output_count_wanted = self.counts_wanted
        if input_count_wanted:
            tensors.append(tensor("num_input_tokens", [[len(self.prompt)]], np.int32))
        if output_count_wanted:
            tensors.append(tensor("num_output_tokens", [[len(self.ids)]], np.int32))
        return tensors


def read_sequence(request, reply, grammars):
    for name in ("beam_width", "num_return_sequences"):
        if scalar(request, name, 1) != 1:
            raise RequestError(f"{name} other than 1 is not supported on llama.cpp")
    return Sequence(
        prompt=reply.prompt,
        tokens_max=scalar(request, "request_output_len", 0),
        end_id=scalar(request, "end_id", -1),
        stop_words=read_words(request, "stop_words_list"),
        sampling=read_sampling(request, grammars),
        want_log_probs=reply.log_probs_wanted or reply.top_log_probs > 0,
        top_log_probs=reply.top_log_probs,
        on_token=reply.on_token,
        on_end=reply.on_end,
        is_cancelled=reply.is_cancelled,
    )


def read_top_log_probs(request):
    wanted = scalar(request, "top_log_probs", 0)
    if not 0 <= wanted <= TOP_LOG_PROBS_MAX:
        raise RequestError(f"top_log_probs must be 0 to {TOP_LOG_PROBS_MAX}, got {wanted}")
    return wanted


def read_sampling(request, grammars):
    number = partial(finite, request)
    temperature, repetition_penalty = number("temperature", 1.0), number("repetition_penalty", 1.0)
    if temperature < 0 or repetition_penalty <= 0:
        raise RequestError("temperature must not be negative and repetition_penalty must be positive")
    return Sampling(
        temperature=temperature,
        top_k=scalar(request, "runtime_top_k", 0),
        top_p=number("runtime_top_p", 0.0),
        seed=scalar(request, "seed", None),
        repetition_penalty=repetition_penalty,
        presence_penalty=number("presence_penalty", 0.0),
        frequency_penalty=number("frequency_penalty", 0.0),
        min_tokens=scalar(request, "min_tokens", 0),
        bias=tuple((token, bias) for token, bias in enumerate(values(request, "embedding_bias")) if bias),
        bad_words=read_words(request, "bad_words_list"),
        grammar=read_grammar(request, grammars),
    )


def read_prompt(request):
    tensor_in = pb_utils.get_input_tensor_by_name(request, "input_ids")
    if tensor_in is None:
        raise RequestError("input_ids is missing")
    rows = tensor_in.as_numpy()
    if rows.ndim != 2 or rows.shape[0] != 1:
        raise RequestError(f"input_ids must be one prompt of shape [1, length], got shape {list(rows.shape)}")
    length = scalar(request, "input_lengths", rows.shape[1])
    if not 0 <= length <= rows.shape[1]:
        raise RequestError(f"input_lengths is {length}, but input_ids holds {rows.shape[1]} ids")
    return rows[0, :length].tolist()


def read_words(request, name):
    """Reads a word list of shape [1, 2, n]: row 0 has all ids, row 1 the end offset of each word, padded with -1."""
    tensor_in = pb_utils.get_input_tensor_by_name(request, name)
    if tensor_in is None:
        return ()
    rows = tensor_in.as_numpy()
    if rows.ndim != 3 or rows.shape[:2] != (1, 2):
        raise RequestError(f"{name} must have shape [1, 2, n], got {list(rows.shape)}")
    ids, offsets = rows[0].tolist()
    ends = [end for end in offsets if end != -1]
    if ends != sorted(ends) or any(not 0 < end <= len(ids) for end in ends):
        raise RequestError(f"{name}: offsets {ends} do not divide {len(ids)} ids")
    starts = [0, *ends[:-1]]
    return tuple(tuple(ids[start:end]) for start, end in zip(starts, ends, strict=True) if end > start)


def read_grammar(request, grammars):
    guide_type = scalar(request, "guided_decoding_guide_type", b"").decode()
    if not guide_type:
        return None
    return grammars.of(guide_type, scalar(request, "guided_decoding_guide", b"").decode())
