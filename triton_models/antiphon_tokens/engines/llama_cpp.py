"""Runs several generations concurrently on llama.cpp, one token of each in turn.

The engine has the llama.cpp context and makes all calls on it. It works on token ids only: no text, no Triton, no
network.

`submit` queues a generation. One thread runs steps in a loop. A step admits waiting generations to free slots, each to
the slot whose cache shares the longest prefix, else to the one that has been idle for longest. Then it decodes one
token of each running generation, or one bounded piece of its prompt. A sampled id is sent at once, so a character of
several tokens gives all of its ids. llama.cpp's own server is not used because it holds text back until a character is
complete, and then reports only the last id.

Generations are decoded one after the other, and not in one batch as on a GPU. On one CPU thread a batch of two tokens
takes more than twice as long as one token (measured: 86 ms against 22 ms for a 0.5B model with 4-bit weights). It also
makes the logits of a generation independent of others.

cyllama releases the GIL in the calls that take time (`decode`, `sample`).
"""

import queue
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest
from importlib.metadata import version
from itertools import takewhile
from math import exp, inf, log
from typing import TYPE_CHECKING, Any

from antiphon_tokens import signature
from antiphon_tokens.arguments import Arguments
from antiphon_tokens.engine import Capabilities, Listener
from antiphon_tokens.gbnf.grammars import Grammars
from antiphon_tokens.generation import (
    Facts,
    FinishReason,
    Generation,
    Limits,
    Sampling,
    Token,
    ends_with,
)

if TYPE_CHECKING:
    from cyllama.llama import llama_cpp

FEATURES = frozenset(
    {
        signature.BIAS,
        signature.BAD_WORDS,
        signature.GUIDE,
        signature.LOG_PROBS,
        signature.TOP_LOG_PROBS,
        signature.CACHE_SALT,
        signature.PERF_METRICS,
    }
)
ARGUMENTS = {"context_length": 4096, "slots": 4, "threads": 1, "prefill_threads": 1}
"""The arguments that a new model.yaml has beside the model, and the values of those that one lacks."""
PREFILL_TOKENS_PER_STEP = 64
"""The most prompt tokens decoded in one step. It bounds how long the prompt of a request delays other streams."""
LEAST_BIAS_IN_GRAMMAR = -1e9
"""The bias of a banned id beside a grammar. Where the grammar permits banned ids only, one of them is sampled. With
minus infinity for all ids, llama.cpp would choose one that the grammar forbids, and end the process."""
LAST = -1
"""The index of the logits of the last token in a batch."""


def load(arguments: Mapping[str, Any], wanted: frozenset[str]) -> "LlamaEngine":
    """Loads a GGUF file. Every release of cyllama has all features."""
    taken = Arguments(arguments)
    model, numbers = taken.text("model"), {name: taken.number(name, most) for name, most in ARGUMENTS.items()}
    taken.require_none_left("llama_cpp")
    return LlamaEngine(model, **numbers)


@dataclass(eq=False)
class Run:
    """A generation that waits or runs, with the ids that it has generated."""

    generation: Generation
    listener: Listener
    grammar: str | None
    submitted_ns: int = field(default_factory=time.monotonic_ns)
    admitted_ns: int = 0
    facts: Facts = field(default_factory=Facts)
    generated: list[int] = field(default_factory=list)

    def banned_ids(self) -> frozenset[int]:
        """The ids that must not come next: the end id before min_tokens, and the last id of a bad word of which all
        other ids were generated."""
        sampling, end_id = self.generation.sampling, self.generation.end_id
        banned = {word[-1] for word in sampling.bad_words if ends_with(self.generated, word[:-1])}
        if len(self.generated) < sampling.min_tokens and end_id is not None:
            banned.add(end_id)
        return frozenset(banned)


@dataclass(eq=False)
class Slot:
    """One sequence number of the llama.cpp context, with its run and the ids in its KV cache, which have one salt."""

    number: int
    cached: list[int] = field(default_factory=list)
    salt: str | None = None
    released_ns: int = 0
    run: Run | None = None
    sampler: Any = None
    banned: frozenset[int] = frozenset()

    def pending(self, run: Run) -> list[int]:
        """The ids to decode before the next one can be sampled."""
        done, prompt = len(self.cached), run.generation.prompt
        return [*prompt[done:], *run.generated[max(0, done - len(prompt)) :]]

    def shared_tokens(self, generation: Generation) -> int:
        """How many ids of a prompt the cache holds. The last one is always decoded again: its logits choose the first
        new id."""
        if generation.cache_salt != self.salt:
            return 0
        pairs = zip(self.cached, generation.prompt[:-1], strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class LlamaEngine:
    """Loads a GGUF file and runs the generating thread until `close`. `context_length` is per slot, in tokens."""

    def __init__(self, gguf: str, *, context_length: int, slots: int, threads: int, prefill_threads: int) -> None:
        from cyllama.llama import llama_cpp

        class Model(llama_cpp.LlamaModel):  # type: ignore[misc]
            """A model with the attribute `n_vocab`, which LlamaContext.get_logits_ith reads and LlamaModel lacks."""

            @property
            def n_vocab(self) -> int:
                return int(self.get_vocab().n_vocab)

        self._llama = llama_cpp
        llama_cpp.disable_logging()
        llama_cpp.ggml_backend_load_all()
        model_params = llama_cpp.LlamaModelParams()
        model_params.n_gpu_layers = 0
        params = llama_cpp.LlamaContextParams()
        params.n_ctx, params.n_seq_max, params.kv_unified = context_length * slots, slots, False
        params.n_batch = params.n_ubatch = PREFILL_TOKENS_PER_STEP
        params.n_threads, params.n_threads_batch = threads, prefill_threads
        params.swa_full = True  # else the cache of sliding-window models cannot be cut back to a shared prefix
        self._model = Model(gguf, model_params, verbose=False)
        self.vocabulary = self._model.get_vocab()
        self._limits = Limits(context_length, int(self.vocabulary.n_vocab))
        self._grammars = Grammars(gguf)
        self._context = llama_cpp.LlamaContext(self._model, params, verbose=False)
        self._batch = llama_cpp.LlamaBatch(n_tokens=PREFILL_TOKENS_PER_STEP, embd=0, n_seq_max=1, verbose=False)
        self._slots = [Slot(number) for number in range(slots)]
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._waiting: deque[Run] = deque()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="llama-engine", daemon=True)
        self._thread.start()

    def submit(self, generation: Generation, listener: Listener) -> None:
        """Queues a generation. A guide that is new is tried first, which takes up to seconds."""
        guide = generation.guide
        grammar = None if guide is None else self._grammars.of(guide.kind, guide.text)
        self._commands.put(partial(self._waiting.append, Run(generation, listener, grammar)))

    def cancel(self, listener: Listener) -> None:
        self._commands.put(partial(self._cancel, listener))

    def capabilities(self) -> Capabilities:
        return Capabilities(f"llama.cpp (cyllama {version('cyllama')})", FEATURES, self._limits)

    def close(self) -> None:
        """Ends the thread after the current step. Generations that run or wait end with an error."""
        self._commands.put(self._begin_to_close)
        self._thread.join()
        self._grammars.close()

    # ---- from here on: the engine's thread ----

    def _run(self) -> None:
        while self._receive():
            try:
                self._step()
            except Exception as error:  # noqa: BLE001, PERF203 - an error ends the requests, and not this thread
                self._fail_all(f"llama.cpp: {error!r}")
        for run in self._waiting:
            run.listener.on_error("the model is being unloaded", is_request=False)
        self._fail_all("the model is being unloaded")

    def _step(self) -> None:
        self._admit()
        for slot in self._slots:
            if slot.run is not None:
                self._advance(slot, slot.run)

    def _receive(self) -> bool:
        """Does what was commanded. Waits for a command only if there is nothing to do. False: `close` was called."""
        is_idle = not self._waiting and all(slot.run is None for slot in self._slots)
        while is_idle or not self._commands.empty():
            self._commands.get()()
            is_idle = False
        return not self._is_closing

    def _begin_to_close(self) -> None:
        self._is_closing = True

    def _cancel(self, listener: Listener) -> None:
        for slot in self._slots:
            if slot.run is not None and slot.run.listener is listener:
                self._release(slot, FinishReason.CANCELLED)
        for run in [run for run in self._waiting if run.listener is listener]:
            self._waiting.remove(run)
            run.listener.on_end(FinishReason.CANCELLED)

    def _admit(self) -> None:
        while self._waiting and (free := [slot for slot in self._slots if slot.run is None]):
            run = self._waiting.popleft()
            slot = max(free, key=lambda slot: (slot.shared_tokens(run.generation), -slot.released_ns))
            slot.run, slot.banned = run, run.banned_ids()
            slot.sampler = self._sampler(run, slot.banned)
            self._truncate(slot, slot.shared_tokens(run.generation))
            slot.salt, run.admitted_ns = run.generation.cache_salt, time.monotonic_ns()
            run.facts = Facts(cached_tokens=len(slot.cached), queue_ns=run.admitted_ns - run.submitted_ns)

    def _truncate(self, slot: Slot, length: int) -> None:
        """Cuts the slot's cache to `length` ids; to none if the model's architecture cannot remove a part of it."""
        if not self._context.memory_seq_rm(slot.number, length, -1):
            self._context.memory_seq_rm(slot.number, -1, -1)
            length = 0
        del slot.cached[length:]

    def _advance(self, slot: Slot, run: Run) -> None:
        """Decodes the pending ids, or a piece of them, and samples an id when none is pending any more."""
        pending = slot.pending(run)
        taken = pending[:PREFILL_TOKENS_PER_STEP]
        self._batch.clear()
        for token in taken:
            self._batch.add(token, len(slot.cached), [slot.number], False)
            slot.cached.append(token)
        is_complete = len(taken) == len(pending)
        if is_complete:
            self._batch.set_last_logits_to_true()
        self._context.decode(self._batch)
        if is_complete:
            self._sample(slot, run)

    def _sample(self, slot: Slot, run: Run) -> None:
        banned, generation = run.banned_ids(), run.generation
        if banned != slot.banned:
            slot.banned, slot.sampler = banned, self._sampler(run, banned)
        token = int(slot.sampler.sample(self._context, LAST))
        if run.facts.prefill_ns is None:
            prefill_ns = time.monotonic_ns() - run.admitted_ns
            run.facts = Facts(run.facts.cached_tokens, run.facts.queue_ns, prefill_ns)
        if token == generation.end_id or (run.grammar is not None and self.vocabulary.is_eog(token)):
            self._release(slot, FinishReason.STOP)
            return
        run.generated.append(token)
        if not run.listener.on_tokens([self._token(token, generation)], run.facts):
            self._release(slot, FinishReason.CANCELLED)

    def _token(self, token: int, generation: Generation) -> Token:
        if not generation.log_probs:
            return Token(token)
        return _with_log_probs(token, self._context.get_logits_ith(LAST), generation.top_log_probs)

    def _release(self, slot: Slot, finish: FinishReason) -> None:
        run, slot.run, slot.sampler = slot.run, None, None
        slot.released_ns = time.monotonic_ns()
        if run is not None:
            run.listener.on_end(finish)

    def _fail_all(self, error: str) -> None:
        for slot in self._slots:
            self._truncate(slot, 0)
            run, slot.run, slot.sampler = slot.run, None, None
            if run is not None:
                run.listener.on_error(error, is_request=False)

    def _sampler(self, run: Run, banned: frozenset[int]) -> "llama_cpp.LlamaSampler":
        """The chain of samplers that chooses the next id. It is built again if the banned ids change, which is rare."""
        sampling, chain = run.generation.sampling, self._llama.LlamaSampler()
        penalties = (sampling.repetition_penalty, sampling.frequency_penalty, sampling.presence_penalty)
        if penalties != (1.0, 0.0, 0.0):
            chain.add_penalties(self._limits.context_length, *penalties)
            for token in run.generation.prompt:
                chain.accept(token)
        if run.grammar is not None:
            chain.add_grammar(self.vocabulary, run.grammar, "root")
        for token in run.generated:
            chain.accept(token)
        least = LEAST_BIAS_IN_GRAMMAR if run.grammar is not None else -inf
        bias = [*((token, max(value, least)) for token, value in sampling.bias), *((token, least) for token in banned)]
        if bias:
            chain.add_logit_bias(self._limits.vocabulary, bias)
        _add_choice(chain, sampling, drawn=len(run.generated))
        return chain


def _add_choice(chain: "llama_cpp.LlamaSampler", sampling: Sampling, *, drawn: int) -> None:
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


def _with_log_probs(token: int, logits: Sequence[float], top: int) -> Token:
    """A chosen token with its log probability and those of the likeliest ones."""
    highest = max(logits)
    norm = highest + log(sum(exp(logit - highest) for logit in logits))
    likeliest = nlargest(top, range(len(logits)), key=logits.__getitem__)
    return Token(token, logits[token] - norm, tuple((other, logits[other] - norm) for other in likeliest))
