"""The trial process: makes grammars of guides, and tries each with llama.cpp before the engine may use it.

A guide comes from a client, and llama.cpp ends its process on a grammar that it cannot parse, or at a place where
nothing can follow; other grammars take seconds for each token. So this process, and not the server, meets each grammar
first. It reads one request on a line of its input, `[type, guide]`, and writes one line to the descriptor of its second
argument: `{"grammar": ...}` or `{"error": ...}`. If it ends instead, the guide is not usable.

The process loads the model like the engine, and lets it write some tokens under each grammar. A trial may take CPU_S of
processor time, after which the kernel ends the process, and MEMORY_BYTES beyond the model.
"""

import json
import os
import resource
import signal
import sys
from pathlib import Path

from cyllama.llama import llama_cpp

from antiphon_tokens.gbnf.dead_ends import dead_end, rule_with_more_alternatives
from antiphon_tokens.gbnf.grammars import CPU_S
from antiphon_tokens.gbnf.guides import grammar_for
from antiphon_tokens.generation import RequestError

TOKENS = 16
"""The tokens of a trial. With CPU_S, a token takes 250 ms at most on average."""
ALTERNATIVES_MAX = 1_000
"""At one place of a grammar. llama.cpp compares each with every token of the vocabulary: 1,000 take 0.2 to 0.5 s for a
token, during which no other stream gets one, and 20,000 took all of CPU_S, and let other new guides wait."""
SEED = 1
MEMORY_BYTES = 2**30
LAST = -1


class Trial:
    """A small context of the model, in which a token has been decoded, so that the next one can be sampled."""

    def __init__(self, gguf: str) -> None:
        llama_cpp.disable_logging()
        llama_cpp.ggml_backend_load_all()
        model_params, params = llama_cpp.LlamaModelParams(), llama_cpp.LlamaContextParams()
        model_params.n_gpu_layers = 0
        params.n_ctx = params.n_batch = params.n_ubatch = 64
        params.n_threads = params.n_threads_batch = 1
        self._model = llama_cpp.LlamaModel(gguf, model_params, verbose=False)
        self._vocabulary = self._model.get_vocab()
        self._context = llama_cpp.LlamaContext(self._model, params, verbose=False)
        batch = llama_cpp.LlamaBatch(n_tokens=1, embd=0, n_seq_max=1, verbose=False)
        batch.add(0, 0, [0], False)
        batch.set_last_logits_to_true()
        self._context.decode(batch)

    def require(self, grammar: str) -> None:
        """Samples from a grammar. Raises RequestError if it has a dead end, or too many alternatives. Ends the process
        if llama.cpp does."""
        chain = llama_cpp.LlamaSampler()
        chain.add_grammar(self._vocabulary, grammar, "root")
        chain.get_seed()  # a grammar that does not parse leaves a null in the chain, on which this ends the process
        _require_usable(grammar)
        chain.add_dist(SEED)
        for _ in range(TOKENS):
            if self._vocabulary.is_eog(chain.sample(self._context, LAST)):
                break


def _require_usable(grammar: str) -> None:
    try:
        crowded, rule = rule_with_more_alternatives(grammar, ALTERNATIVES_MAX), dead_end(grammar)
    except (ValueError, KeyError, IndexError, RecursionError) as error:
        raise RequestError(f"guided_decoding_guide: its grammar cannot be checked: {error!r}") from error
    if crowded is not None:
        why = f"its rule {crowded!r} has more than {ALTERNATIVES_MAX} alternatives at one place"
        raise RequestError(f"guided_decoding_guide: {why}, each of which is tried for each token")
    if rule is not None:
        raise RequestError(f"guided_decoding_guide: nothing can match a part of it (rule {rule!r} of the grammar)")


def _answer(trial: Trial, line: str) -> dict[str, str]:
    guide_type, guide = json.loads(line)
    try:
        grammar = grammar_for(guide_type, guide)
        trial.require(grammar)
    except RequestError as error:
        return {"error": str(error)}
    return {"grammar": grammar}


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    most = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    replies = os.fdopen(int(sys.argv[2]), "w", encoding="utf-8")
    trial = Trial(sys.argv[1])
    _limit_memory()
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, CPU_S)
        reply = _answer(trial, line)
        signal.setitimer(signal.ITIMER_PROF, 0)
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
