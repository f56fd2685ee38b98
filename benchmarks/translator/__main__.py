"""Measures the translator: parsers and whole pipelines of each family, single steps, prompts, long chats.

    make bench-translator
    make bench-translator ARGS='--tables parsers,pipelines --families gpt_oss,hermes'

Rates are per second of processor time on one core. `x library` is the cost as a multiple of the tokenizer library's own
cost for the same ids or text, in the same run; rounds of both alternate. The bench asserts nothing.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial

from antiphon_translator.parsing import families
from benchmarks.arguments import chosen
from benchmarks.translator.depth import print_depths
from benchmarks.translator.families import print_parsers, print_pipelines
from benchmarks.translator.prompts import print_prompts
from benchmarks.translator.steps import print_steps


def main() -> None:
    asked = _parse()
    names = chosen("family", asked.families, families.names())
    tables: dict[str, Callable[[], None]] = {
        "parsers": partial(print_parsers, names),
        "pipelines": partial(print_pipelines, names),
        "steps": print_steps,
        "prompts": print_prompts,
        "depth": print_depths,
    }
    print(f"{os.cpu_count()} cores")
    for table in chosen("table", asked.tables, list(tables)):
        tables[table]()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="", help="which, of parsers,pipelines,steps,prompts,depth")
    parser.add_argument("--families", default="", help="which; all when not said")
    return parser.parse_args()


if __name__ == "__main__":
    main()
