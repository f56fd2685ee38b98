"""Turns what an engine generates into Triton's responses, one `Reply` for each request."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import triton_python_backend_utils as pb_utils

from antiphon_tokens import tensors
from antiphon_tokens.generation import Facts, FinishReason, Generation, Output, Token
from antiphon_tokens.requests import Answer


class Reply:
    """The listener of one request, which is noted before it is read: `begin` comes before all tokens. Its last response
    has the finish reason.

    Streamed responses have the NEW ids only. Without streaming the one response has the prompt, too, unless
    `exclude_input_in_output`, as in TensorRT-LLM. Facts are sent with the first ids and again at the end.

    Several threads use it. Triton 2.51 crashes (signal 11) if it is asked for a cancellation while or after it gets the
    last response, so the lock keeps both apart.
    """

    def __init__(self, sender: Any, request_id: str, on_done: "Callable[[Reply], None]") -> None:
        self.request_id = request_id
        self.arrived_s = time.monotonic()
        self.is_waiting = True
        """Whether no token has come yet."""
        self.is_idle = True
        """Whether no token has come since the last look at the client."""
        self.is_stopped = False
        """Whether a stop request asked for the end."""
        self._sender = sender
        self._generation: Generation
        self._answer: Answer
        self._output: Output
        self._on_done = on_done
        self._unsent: list[Token] = []
        self._cumulated_log_prob = 0.0
        self._facts = Facts()
        self._has_sent_facts = False
        self._ending = threading.Lock()
        self._is_over = False

    def begin(self, generation: Generation, answer: Answer) -> None:
        """Takes what is generated, and what of it is sent."""
        self._generation, self._answer, self._output = generation, answer, Output(generation)

    def close(self) -> None:
        """Ends a request without a response."""
        tensors.close(self._sender)

    def is_unwanted(self) -> bool:
        """Whether the client has cancelled. Asks Triton, which takes tens of microseconds."""
        with self._ending:
            return not self._is_over and (self.is_stopped or bool(self._sender.is_cancelled()))

    def on_tokens(self, tokens: Sequence[Token], facts: Facts) -> bool:
        self.is_idle = self.is_waiting = False
        self._facts = facts
        self._unsent += self._output.take(tokens)
        if self._output.finish is not None:
            self._finish(self._output.finish)
            return False
        if self.is_unwanted():
            return False
        if self._answer.is_streamed:
            self._respond(is_final=False)
        return True

    def on_end(self, finish: FinishReason) -> None:
        self._on_done(self)
        if finish is FinishReason.CANCELLED and self._output.finish is None:
            count = len(self._output.ids)
            pb_utils.Logger.log_info(f"cancelled after {count} tokens request_id={self.request_id}")
        self._finish(finish)

    def on_error(self, message: str, *, is_request: bool) -> None:
        self._on_done(self)
        with self._ending:
            if not self._is_over:
                self._is_over = True
                tensors.respond_error(self._sender, message, is_request=is_request)

    def _finish(self, finish: FinishReason) -> None:
        with self._ending:
            if self._is_over:
                return
            self._is_over = True
            try:
                self._respond(is_final=True, finish=finish)
            except Exception as error:  # noqa: BLE001 - a request must always get an end
                pb_utils.Logger.log_error(f"request_id={self.request_id}: no last response: {error!r}")
                tensors.respond_error(self._sender, f"the model failed: {error!r}", is_request=False)

    def _respond(self, *, is_final: bool, finish: FinishReason | None = None) -> None:
        """Sends the ids that were not sent yet, possibly none."""
        outputs = [*self._ids(), *self._log_probs(), *self._counts()]
        if finish is not None:
            outputs.append(tensors.words("finish_reason", [[finish.value]]))
        if self._answer.perf_metrics and (is_final or not self._has_sent_facts):
            outputs += self._perf_metrics()
            self._has_sent_facts = True
        tensors.respond(self._sender, outputs, is_final=is_final)
        self._unsent = []

    def _ids(self) -> list[Any]:
        ids = [token.id for token in self._unsent]
        if not self._answer.is_streamed and self._answer.echoes_prompt:
            ids = [*self._generation.prompt, *ids]
        return [
            tensors.numbers("output_ids", [[ids]], "int32"),
            tensors.numbers("sequence_length", [[len(ids)]], "int32"),
        ]

    def _log_probs(self) -> list[Any]:
        if not self._generation.log_probs:
            return []
        chosen = [token.log_prob for token in self._unsent]
        self._cumulated_log_prob += sum(chosen)
        outputs = [
            tensors.numbers("cum_log_probs", [[self._cumulated_log_prob]], "float32"),
            tensors.numbers("output_log_probs", [[chosen]], "float32"),
        ]
        if self._generation.top_log_probs:
            likeliest = [each for token in self._unsent for each in token.likeliest]
            outputs.append(tensors.numbers("top_log_prob_ids", [[[token for token, _ in likeliest]]], "int32"))
            outputs.append(tensors.numbers("top_log_prob_values", [[[value for _, value in likeliest]]], "float32"))
        return outputs

    def _counts(self) -> list[Any]:
        outputs = []
        if self._answer.input_count:
            outputs.append(tensors.numbers("num_input_tokens", [[len(self._generation.prompt)]], "int32"))
        if self._answer.output_count:
            outputs.append(tensors.numbers("num_output_tokens", [[len(self._unsent)]], "int32"))
        return outputs

    def _perf_metrics(self) -> list[Any]:
        known = {
            "cached_tokens": (self._facts.cached_tokens, "int32"),
            "queue_ns": (self._facts.queue_ns, "int64"),
            "prefill_ns": (self._facts.prefill_ns, "int64"),
        }
        return [tensors.numbers(name, [[value]], dtype) for name, (value, dtype) in known.items() if value is not None]
