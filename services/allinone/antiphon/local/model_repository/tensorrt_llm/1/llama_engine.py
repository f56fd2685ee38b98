"""An in-flight batcher on llama.cpp: several token sequences generated together, one decode per step.

Owns the llama.cpp context and everything that touches it. Knows token ids only: no text, no Triton, no network.

How it works. `submit` queues a `Sequence`; one thread runs `step` for ever. A step admits waiting sequences to free
slots (the slot whose cache shares the longest prefix wins), puts one token of every generating sequence and a bounded
piece of every prompt into a single batch, decodes it, and samples the sequences whose logits are ready. Each sampled
id goes to `Sequence.on_token` at once, so ids are exact even in the middle of a UTF-8 character: nothing here ever
looks at text. (llama.cpp's own HTTP server holds text back until a character is complete and then reports the last
id only, which is why it is not used.)

llama.cpp through cyllama; the calls that take time (`decode`, `sample`) release the GIL.
"""

import queue
import re
import secrets
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence as SequenceOf
from dataclasses import dataclass, field
from math import exp, inf, log
from pathlib import Path

from cyllama.llama import llama_cpp

PREFILL_TOKENS_PER_STEP = 256
"""Prompt tokens decoded in one step: a running stream waits, and a cancelled prompt runs on, at most this long."""


class RequestError(Exception):
    """The request cannot be served; the message says why."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. Defaults and meaning are TensorRT-LLM's: without top_k and top_p it is greedy."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 0.0
    seed: "int | None" = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    min_tokens: int = 0
    bias: "tuple[tuple[int, float], ...]" = ()
    bad_words: "tuple[tuple[int, ...], ...]" = ()
    grammar: "str | None" = None

    @property
    def greedy(self) -> bool:
        return self.temperature <= 0 or self.top_k == 1 or (self.top_k <= 0 and self.top_p <= 0)


@dataclass(eq=False)
class Sequence:
    """One generation. The callbacks run on the engine's thread and must be quick.

    on_token(id, log_prob, last) for every generated id; on_end(error) once, after the last id, with None for a normal
    end; is_cancelled() is asked before every step.
    """

    prompt: "list[int]"
    tokens_max: int
    end_id: int
    stop_words: "tuple[tuple[int, ...], ...]"
    sampling: Sampling
    want_log_probs: bool
    on_token: "Callable[[int, float, bool], None]"
    on_end: "Callable[[str | None], None]"
    is_cancelled: "Callable[[], bool]"
    generated: "list[int]" = field(default_factory=list)

    def finishes(self) -> bool:
        """Whether the last generated id completes a stop word or the length."""
        tail = self.generated
        stopped = any(tuple(tail[-len(word) :]) == word for word in self.stop_words if word)
        return stopped or len(tail) >= self.tokens_max

    def banned(self) -> "frozenset[int]":
        """Ids that must not come next: the end id before min_tokens, the last id of a bad word already begun."""
        banned = {word[-1] for word in self.sampling.bad_words if self._ends_with(word[:-1])}
        if len(self.generated) < self.sampling.min_tokens:
            banned.add(self.end_id)
        return frozenset(banned - {-1})

    def _ends_with(self, prefix: "tuple[int, ...]") -> bool:
        return not prefix or tuple(self.generated[-len(prefix) :]) == prefix


@dataclass(eq=False)
class Slot:
    """One sequence id of the llama.cpp context, with the ids whose keys and values its cache holds."""

    number: int
    cached: "list[int]" = field(default_factory=list)
    sequence: "Sequence | None" = None
    sampler: "llama_cpp.LlamaSampler | None" = None
    banned: "frozenset[int]" = frozenset()

    def pending(self) -> "list[int]":
        assert self.sequence is not None
        done = len(self.cached)
        prompt = self.sequence.prompt
        return prompt[done:] if done < len(prompt) else self.sequence.generated[done - len(prompt) :]


class _Model(llama_cpp.LlamaModel):
    """Adds the attribute that LlamaContext.get_logits_ith reads and this release of cyllama forgot to define."""

    @property
    def n_vocab(self) -> int:
        return int(self.get_vocab().n_vocab)


class LlamaEngine:
    """Loads the GGUF file and runs the batcher's thread until `close`. Raises what llama.cpp raises on a bad file."""

    def __init__(self, gguf: str, *, context_length: int, slots: int, threads: int, prefill_threads: int) -> None:
        llama_cpp.disable_logging()
        llama_cpp.ggml_backend_load_all()
        model_params = llama_cpp.LlamaModelParams()
        model_params.n_gpu_layers = 0
        self._gguf = gguf
        self._model = _Model(gguf, model_params, verbose=False)
        self._vocab = self._model.get_vocab()
        self.vocab_size = int(self._vocab.n_vocab)
        self.context_length = context_length
        self._context = llama_cpp.LlamaContext(
            self._model, _context_params(context_length, slots, threads, prefill_threads), verbose=False
        )
        self._batch = llama_cpp.LlamaBatch(
            n_tokens=PREFILL_TOKENS_PER_STEP + slots, embd=0, n_seq_max=1, verbose=False
        )
        self._slots = [Slot(number) for number in range(slots)]
        self._arrivals: "queue.SimpleQueue[Sequence | None]" = queue.SimpleQueue()
        self._waiting: "deque[Sequence]" = deque()
        self._thread = threading.Thread(target=self._run, name="llama-engine", daemon=True)
        self._thread.start()

    def submit(self, sequence: Sequence) -> None:
        """Queues a sequence; raises RequestError when it can never run. Thread-safe.

        Like TensorRT-LLM, a request for more tokens than the context can hold is cut to what it can hold.
        """
        self._check(sequence)
        sequence.tokens_max = min(sequence.tokens_max, self.context_length - len(sequence.prompt))
        self._arrivals.put(sequence)

    def close(self) -> None:
        """Ends the thread after the current step; running sequences end with an error."""
        self._arrivals.put(None)
        self._thread.join()

    def _check(self, sequence: Sequence) -> None:
        prompt = sequence.prompt
        if not prompt:
            raise RequestError("input_ids is empty")
        if len(prompt) >= self.context_length:
            raise RequestError(
                f"Prompt length ({len(prompt)}) exceeds maximum input length ({self.context_length - 1})"
            )
        bad = next((token for token in prompt if not 0 <= token < self.vocab_size), None)
        if bad is not None:
            raise RequestError(f"input_ids holds {bad}; the vocabulary has ids 0 to {self.vocab_size - 1}")
        if sequence.tokens_max <= 0:
            raise RequestError(f"request_output_len must be positive, got {sequence.tokens_max}")

    # ---- everything below runs on the engine's thread ----

    def _run(self) -> None:
        while self._receive():
            self._drop_cancelled()
            self._admit()
            ready = self._fill_batch()
            if not ready and not self._batch.n_tokens:
                continue
            try:
                self._context.decode(self._batch)
            except (RuntimeError, ValueError) as error:
                self._fail_running(f"llama.cpp: {error}")
                continue
            for slot, index in ready:
                self._sample(slot, index)
        for sequence in self._waiting:
            sequence.on_end("the model is being unloaded")
        self._fail_running("the model is being unloaded")

    def _receive(self) -> bool:
        """Takes what has arrived, waiting only when there is nothing to generate. False: close."""
        idle = not self._waiting and all(slot.sequence is None for slot in self._slots)
        while idle or not self._arrivals.empty():
            sequence = self._arrivals.get()
            if sequence is None:
                return False
            self._waiting.append(sequence)
            idle = False
        return True

    def _drop_cancelled(self) -> None:
        for slot in self._slots:
            if slot.sequence is not None and slot.sequence.is_cancelled():
                self._release(slot, None)
        for sequence in [waiting for waiting in self._waiting if waiting.is_cancelled()]:
            self._waiting.remove(sequence)
            sequence.on_end(None)

    def _admit(self) -> None:
        while self._waiting:
            free = [slot for slot in self._slots if slot.sequence is None]
            if not free:
                return
            sequence = self._waiting.popleft()
            slot = max(free, key=lambda slot: _common_prefix(slot.cached, sequence.prompt))
            self._begin(slot, sequence)

    def _begin(self, slot: Slot, sequence: Sequence) -> None:
        slot.sequence, slot.banned = sequence, sequence.banned()
        self._truncate(slot, min(_common_prefix(slot.cached, sequence.prompt), len(sequence.prompt) - 1))
        try:
            slot.sampler = self._sampler(sequence, slot.banned)
        except (RequestError, ValueError, RuntimeError) as error:
            self._release(slot, str(error))

    def _truncate(self, slot: Slot, length: int) -> None:
        """Forgets the slot's cache beyond `length`; all of it where the architecture cannot forget a part."""
        if not self._context.memory_seq_rm(slot.number, length, -1):
            self._context.memory_seq_rm(slot.number, -1, -1)
            length = 0
        del slot.cached[length:]

    def _fill_batch(self) -> "list[tuple[Slot, int]]":
        """Fills the batch; returns the slots to sample with the index of their logits in it."""
        self._batch.clear()
        budget = PREFILL_TOKENS_PER_STEP
        ready = []
        for slot in self._slots:
            if slot.sequence is None:
                continue
            pending = slot.pending()
            taken = pending if len(pending) == 1 else pending[:budget]
            budget -= len(taken) if len(pending) > 1 else 0
            complete = len(taken) == len(pending)
            for token in taken:
                slot.cached.append(token)
                self._batch.add(token, len(slot.cached) - 1, [slot.number], False)
            if complete:
                self._batch.set_last_logits_to_true()
                ready.append((slot, self._batch.n_tokens - 1))
        return ready

    def _sample(self, slot: Slot, index: int) -> None:
        sequence = slot.sequence
        assert sequence is not None
        if sequence.banned() != slot.banned:
            slot.banned = sequence.banned()
            slot.sampler = self._sampler(sequence, slot.banned)
        token = int(slot.sampler.sample(self._context, index))
        guided = sequence.sampling.grammar is not None
        if token == sequence.end_id or (guided and self._vocab.is_eog(token)):
            self._release(slot, None)
            return
        log_prob = _log_prob(self._context.get_logits_ith(index), token) if sequence.want_log_probs else 0.0
        sequence.generated.append(token)
        last = sequence.finishes()
        sequence.on_token(token, log_prob, last)
        if last:
            self._release(slot, None)

    def _release(self, slot: Slot, error: "str | None") -> None:
        sequence, slot.sequence, slot.sampler = slot.sequence, None, None
        assert sequence is not None
        sequence.on_end(error)

    def _fail_running(self, error: str) -> None:
        for slot in self._slots:
            self._truncate(slot, 0)
            if slot.sequence is not None:
                self._release(slot, error)

    def _sampler(self, sequence: Sequence, banned: "frozenset[int]") -> llama_cpp.LlamaSampler:
        """The chain for what comes next; rebuilt (rarely) when the banned ids change."""
        sampling, chain = sequence.sampling, llama_cpp.LlamaSampler()
        penalties = (sampling.repetition_penalty, sampling.frequency_penalty, sampling.presence_penalty)
        if penalties != (1.0, 0.0, 0.0):
            chain.add_penalties(self.context_length, *penalties)
            for token in sequence.prompt:
                chain.accept(token)
        if sampling.grammar is not None:
            chain.add_grammar(self._vocab, sampling.grammar, "root")
        for token in sequence.generated:
            chain.accept(token)
        bias = [*sampling.bias, *((token, -inf) for token in banned)]
        if bias:
            chain.add_logit_bias(self.vocab_size, bias)
        if sampling.greedy:
            chain.add_greedy()
            return chain
        chain.add_temp(sampling.temperature)
        if sampling.top_k > 0:
            chain.add_top_k(sampling.top_k)
        if 0 < sampling.top_p < 1:
            chain.add_top_p(sampling.top_p, 1)
        chain.add_dist(_seed(sampling.seed, len(sequence.generated)))
        return chain
