"""Tries guides as the packaged model does, and then lets llama.cpp write under each accepted grammar in this process.

    PYTHON_OF_TRITON grammar_driver.py CODE_FOLDER GGUF < guides > results

Each line of the input is `[type, guide]`, each line of the output `{"grammar": ...}` or `{"error": ...}`. A grammar
that ends llama.cpp ends this process, too, and its line is missing.
"""

import json
import sys

sys.path.insert(0, sys.argv[1])

from cyllama.llama import llama_cpp

from antiphon_tokens.gbnf.grammars import Grammars
from antiphon_tokens.gbnf.trial import LAST, Trial
from antiphon_tokens.generation import RequestError

TOKENS = 40
SEEDS = (7, 8)


class LongTrial(Trial):
    def write(self, grammar: str) -> None:
        for seed in SEEDS:
            chain = llama_cpp.LlamaSampler()
            chain.add_grammar(self._vocabulary, grammar, "root")
            chain.add_temp(1.5)
            chain.add_dist(seed)
            for _ in range(TOKENS):
                if self._vocabulary.is_eog(chain.sample(self._context, LAST)):
                    break


def main() -> None:
    grammars, trial = Grammars(sys.argv[2]), LongTrial(sys.argv[2])
    for line in sys.stdin:
        try:
            grammar = grammars.of(*json.loads(line))
            trial.write(grammar)
            print(json.dumps({"grammar": grammar}), flush=True)
        except RequestError as error:
            print(json.dumps({"error": str(error)}), flush=True)
    grammars.close()


if __name__ == "__main__":
    main()
