"""Feeds random outputs to the parsers of all families and stops at the first that breaks a rule.

    python -m tests.golden.tool_calls.fuzz [COUNT] [SEED]

A seed always makes equal outputs.
"""

from __future__ import annotations

import random
import sys
from itertools import product

from antiphon_translator.parsing import families
from tests.support.tool_calls.random_outputs import check, output_fuzzer, pieces_of

COUNT = 20_000
"""How many outputs of each family are checked."""
PIECES_MAX = 24


def run(count: int, seed: int) -> None:
    """Checks this many random outputs of each family.

    Raises:
        AssertionError: A parser broke a rule. The error contains the output and its seed.
    """
    for number, name in product(range(count), families.names()):
        chance = random.Random(f"{name} {seed + number}")
        here = output_fuzzer(name, tokens=chance.random() < 0.5)
        make_output = here.random_output if chance.random() < 0.5 else here.quoted_markers
        output = make_output(chance, pieces=chance.randint(1, PIECES_MAX))
        tail = chance.choice(here.markers) if chance.random() < 0.3 else ""
        try:
            check(here.family, output, pieces_of(output, chance), tail=tail)
        except Exception as error:
            raise AssertionError((here.family.name, output, tail, seed + number)) from error


def main() -> None:
    count, seed = map(int, (sys.argv[1:] + [str(COUNT), "0"][len(sys.argv) - 1 :])[:2])
    run(count, seed)
    print(f"{count} outputs of each family, nothing to report")


if __name__ == "__main__":
    main()
