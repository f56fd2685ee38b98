"""What a prompt costs: rendered, searched for control tokens, encoded; beside the bare encoding of the same text."""

from __future__ import annotations

from functools import partial

from antiphon_core.request import Parameters
from antiphon_translator.turn_prompt import TurnPrompt
from tests.bench.measuring import print_table, work
from tests.bench.translator.steps import TEXT
from tests.support.served_models import message, model, tokenizer, turn

PAIRS = (1, 10, 100)  # of messages before the question
CHARS = 300  # of each message


def print_prompts() -> None:
    rows = []
    for pairs in PAIRS:
        given = turn("x", history=[message("user", TEXT[:CHARS]), message("assistant", TEXT[:CHARS])] * pairs)
        make = partial(TurnPrompt.of, model(), given, Parameters.parse(given.request))
        ids = make().ids
        done = work(make, partial(tokenizer().encode, tokenizer().decode(ids)))
        rows.append([f"{2 * pairs + 1} messages", f"{len(ids):,}", f"{done.cpu_s * 1e3:.2f}", f"{done.ratio:.2f}"])
    print_table("Prompts", ["", "ids", "ms", "x library"], rows)
