"""Runs several generations concurrently on llama.cpp, one token of each in turn.

The engine has the llama.cpp context and makes all calls on it. It works on token ids only: no text, no Triton, no
network.

`submit` queues a sequence. One thread runs steps in a loop. A step admits waiting sequences to free slots, each to the
slot whose cache shares the longest prefix. Then it decodes one token of each running sequence, or one bounded piece of
its prompt. A sampled id is sent at once, so a character of several tokens gives all of its ids. llama.cpp's own server
is not used because it holds text back until a character is complete, and then reports only the last id.

Sequences are decoded one after the other, and not in one batch as on a GPU. On one CPU thread a batch of two tokens
takes more than twice as long as one token (measured: 86 ms against 22 ms for a 0.5B model with 4-bit weights). It also
makes the logits of a sequence independent of other sequences.

cyllama releases the GIL in the calls that take time (`decode`, `sample`).
"""

import queue
import secrets
import threading
from collections import deque
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import takewhile
from math import exp, inf, log

from cyllama.llama import llama_cpp
from sequences import RequestError, Sampling, Sequence

PREFILL_TOKENS_PER_STEP = 64
"""The most prompt tokens decoded in one step. It bounds how long the prompt of a request delays other streams."""
LEAST_BIAS_IN_GRAMMAR = -1e9
"""The bias of a banned id beside a grammar. Where the grammar permits banned ids only, one of them is sampled. With
minus infinity for all ids, llama.cpp would choose one that the grammar forbids, and end the process."""
LAST = -1
"""The index of the logits of the last token in a batch."""


@dataclass(eq=False)
class Slot:
    """One sequence number of the llama.cpp context, with its running sequence and the ids in its KV cache."""

    number: int
    cached: list[int] = field(default_factory=list)
    sequence: Sequence | None = None
    sampler: llama_cpp.LlamaSampler | None = None
    banned: frozenset[int] = frozenset()

    def pending(self) -> list[int]:
        """The ids to decode before the next one can be sampled."""
        done, sequence = len(self.cached), self.sequence
        return [*sequence.prompt[done:], *sequence.generated[max(0, done - len(sequence.prompt)) :]]


class _Model(llama_cpp.LlamaModel):
    """A model with the attribute `n_vocab`, which LlamaContext.get_logits_ith reads and LlamaModel lacks."""

    @property
    def n_vocab(self) -> int:
        return int(self.get_vocab().n_vocab)


class LlamaEngine:
    """Loads a GGUF file and runs the generating thread until `close`. `context_length` is per slot, in tokens."""

    def __init__(self, gguf: str, *, context_length: int, slots: int, threads: int, prefill_threads: int) -> None:
        llama_cpp.disable_logging()
        llama_cpp.ggml_backend_load_all()
        model_params = llama_cpp.LlamaModelParams()
        model_params.n_gpu_layers = 0
        params = llama_cpp.LlamaContextParams()
        params.n_ctx, params.n_seq_max, params.kv_unified = context_length * slots, slots, False
        params.n_batch = params.n_ubatch = PREFILL_TOKENS_PER_STEP
        params.n_threads, params.n_threads_batch = threads, prefill_threads
        params.swa_full = True  # else the cache of sliding-window models cannot be cut back to a shared prefix
        self._model = _Model(gguf, model_params, verbose=False)
        self.vocabulary = self._vocab = self._model.get_vocab()
        self.vocab_size = int(self._vocab.n_vocab)
        self.context_length = context_length
        self._context = llama_cpp.LlamaContext(self._model, params, verbose=False)
        self._batch = llama_cpp.LlamaBatch(n_tokens=PREFILL_TOKENS_PER_STEP, embd=0, n_seq_max=1, verbose=False)
        self._slots = [Slot(number) for number in range(slots)]
        self._arrivals: queue.SimpleQueue[Sequence | None] = queue.SimpleQueue()
        self._waiting: deque[Sequence] = deque()
        self._thread = threading.Thread(target=self._run, name="llama-engine", daemon=True)
        self._thread.start()

    def submit(self, sequence: Sequence) -> None:
        """Queues a sequence; raises RequestError if it can never run. Thread-safe.

        As in TensorRT-LLM, the number of tokens to generate is cut to the rest of the context behind the prompt.
        """
        self._check(sequence)
        sequence.tokens_max = min(sequence.tokens_max, self.context_length - len(sequence.prompt))
        self._arrivals.put(sequence)

    def close(self) -> None:
        """Ends the thread after the current step. Sequences that run or wait end with an error."""
        self._arrivals.put(None)
        self._thread.join()

    def _check(self, sequence: Sequence) -> None:
        length, input_max = len(sequence.prompt), self.context_length - 1
        if not length:
            raise RequestError("input_ids is empty")
        if length > input_max:
            raise RequestError(f"Prompt length ({length}) exceeds maximum input length ({input_max})")
        if sequence.tokens_max <= 0:
            raise RequestError(f"request_output_len must be positive, got {sequence.tokens_max}")
        words = (*sequence.stop_words, *sequence.sampling.bad_words)
        bias = (token for token, _ in sequence.sampling.bias)
        ids = (*sequence.prompt, *(token for word in words for token in word), *bias, max(sequence.end_id, 0))
        outside = next((token for token in ids if not 0 <= token < self.vocab_size), None)
        if outside is not None:
            raise RequestError(f"token id {outside} is outside the vocabulary (0 to {self.vocab_size - 1})")

    # ---- from here on: the engine's thread ----

    def _run(self) -> None:
        while self._receive():
            try:
                self._drop_cancelled()
                self._admit()
                for slot in self._slots:
                    if slot.sequence is not None:
                        self._advance(slot)
            except Exception as error:  # noqa: BLE001 - an error ends the requests, and not this thread
                self._fail_all(f"llama.cpp: {error!r}")
        for sequence in self._waiting:
            sequence.on_end("the model is being unloaded")
        self._fail_all("the model is being unloaded")

    def _receive(self) -> bool:
        """Takes the sequences that were submitted. Waits for one only if there is nothing to do. False: `close` was
        called."""
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
                self._release(slot)
        for sequence in [waiting for waiting in self._waiting if waiting.is_cancelled()]:
            self._waiting.remove(sequence)
            sequence.on_end(None)

    def _admit(self) -> None:
        while self._waiting and (free := [slot for slot in self._slots if slot.sequence is None]):
            sequence = self._waiting.popleft()
            slot = max(free, key=lambda slot: _common_prefix(slot.cached, sequence.prompt))
            slot.sequence, slot.banned = sequence, sequence.banned_ids()
            slot.sampler = self._sampler(sequence, slot.banned)
            # The last id of the prompt is always decoded again: its logits choose the first new one.
            self._truncate(slot, min(_common_prefix(slot.cached, sequence.prompt), len(sequence.prompt) - 1))

    def _truncate(self, slot: Slot, length: int) -> None:
        """Cuts the slot's cache to `length` ids; to none if the model's architecture cannot remove a part of it."""
        if not self._context.memory_seq_rm(slot.number, length, -1):
            self._context.memory_seq_rm(slot.number, -1, -1)
            length = 0
        del slot.cached[length:]

    def _advance(self, slot: Slot) -> None:
        """Decodes the pending ids, or a piece of them, and samples an id when none is pending any more."""
        pending = slot.pending()
        taken = pending[:PREFILL_TOKENS_PER_STEP]
        self._batch.clear()
        for token in taken:
            self._batch.add(token, len(slot.cached), [slot.number], False)
            slot.cached.append(token)
        complete = len(taken) == len(pending)
        if complete:
            self._batch.set_last_logits_to_true()
        self._context.decode(self._batch)
        if complete:
            self._sample(slot)

    def _sample(self, slot: Slot) -> None:
        sequence = slot.sequence
        banned = sequence.banned_ids()
        if banned != slot.banned:
            slot.banned, slot.sampler = banned, self._sampler(sequence, banned)
        token = int(slot.sampler.sample(self._context, LAST))
        guided = sequence.sampling.grammar is not None
        if token == sequence.end_id or (guided and self._vocab.is_eog(token)):
            self._release(slot)
            return
        log_prob = 0.0
        if sequence.want_log_probs:
            log_prob = _note_log_probs(self._context.get_logits_ith(LAST), token, sequence)
        sequence.generated.append(token)
        finished = sequence.is_finished()
        sequence.on_token(token, log_prob, finished)
        if finished:
            self._release(slot)

    def _release(self, slot: Slot, error: str | None = None) -> None:
        sequence, slot.sequence, slot.sampler = slot.sequence, None, None
        sequence.on_end(error)

    def _fail_all(self, error: str) -> None:
        for slot in self._slots:
            self._truncate(slot, 0)
            if slot.sequence is not None:
                self._release(slot, error)

    def _sampler(self, sequence: Sequence, banned: frozenset[int]) -> llama_cpp.LlamaSampler:
        """The chain of samplers that chooses the next id. It is built again if the banned ids change, which is rare."""
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
        least = LEAST_BIAS_IN_GRAMMAR if sampling.grammar is not None else -inf
        bias = [*((token, max(value, least)) for token, value in sampling.bias), *((token, least) for token in banned)]
        if bias:
            chain.add_logit_bias(self.vocab_size, bias)
        _add_choice(chain, sampling, drawn=len(sequence.generated))
        return chain


def _add_choice(chain: llama_cpp.LlamaSampler, sampling: Sampling, *, drawn: int) -> None:
    """Adds the samplers that choose the id. `drawn` is the number of tokens that earlier chains have chosen: it changes
    the seed, so that their random numbers are not repeated."""
    if sampling.is_greedy:
        chain.add_greedy()
        return
    chain.add_temp(sampling.temperature)
    if sampling.top_k > 0:
        chain.add_top_k(sampling.top_k)
    if 0 < sampling.top_p < 1:
        chain.add_top_p(sampling.top_p, 1)
    seed = secrets.randbits(64) if sampling.seed is None else sampling.seed + drawn
    chain.add_dist((seed ^ seed >> 32) % 0xFFFFFFFF)  # 2**32 - 1 would mean "random" to llama.cpp


def _common_prefix(left: list[int], right: list[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def _note_log_probs(logits: list[float], token: int, sequence: Sequence) -> float:
    """The log probability of the chosen token. Sets `sequence.likeliest`."""
    highest = max(logits)
    norm = highest + log(sum(exp(logit - highest) for logit in logits))
    likeliest = nlargest(sequence.top_log_probs, range(len(logits)), key=logits.__getitem__)
    sequence.likeliest = [(other, logits[other] - norm) for other in likeliest]
    return logits[token] - norm
