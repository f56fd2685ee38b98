"""Runs inside the server's virtual environment, and writes the ids that llama.cpp itself gives for texts.

Reads {"gguf": path, "texts": [...]} from standard input, writes a list of lists of ids.
"""

import json
import sys

from cyllama.llama import llama_cpp


def main() -> None:
    task = json.load(sys.stdin)
    llama_cpp.disable_logging()
    model = llama_cpp.LlamaModel(task["gguf"], verbose=False)  # the vocabulary lives inside the model
    vocabulary = model.get_vocab()
    ids = [[int(token) for token in vocabulary.tokenize(text, False, True)] for text in task["texts"]]
    json.dump(ids, sys.stdout)


if __name__ == "__main__":
    main()
