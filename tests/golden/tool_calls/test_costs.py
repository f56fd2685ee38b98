"""The time that the parsers take for long outputs is in proportion to their length. All of these took quadratic time,
cubic time or more."""

from __future__ import annotations

from time import thread_time

import pytest

from antiphon_translator.parsing import families
from antiphon_translator.parsing.parser import OutputParser

CHUNK_CHARS = 40
LIMIT_S = 5.0
"""About ten times the longest time, and a tenth of the shortest before."""
MANY = {f"k{number}": {"type": "string"} for number in range(1_000)}

OUTPUTS = {
    "attributes of a tag without an end": ("kimi_k3", "<|open|>call " + 'x="p q=" ' * 30 + 'z="" !'),
    "white space before a header": ("gpt_oss", "\n" * 4_000 + "x<|start|>"),
    "white space in a key": (
        "qwen_coder",
        f"<tool_call>\n<function=f>\n<parameter=x>1</parameter><parameter={' ' * 4_000}a\nb></function></tool_call>",
    ),
    "a name with many dashes": ("llama4", f"[f(x=b{'-a' * 100_000})]"),
    "many zeros": ("llama4", f"[f(x={'0' * 100_000}x)]"),
    "a long call in Python's syntax": ("llama4", f"[f(x='{'word ' * 100_000}')]"),
    "many closers": ("hermes", '<tool_call>{"arguments": "x' + "</tool_call>" * 200_000),
    "many parameters": (
        "qwen_coder",
        f"<tool_call>\n<function=f>\n{''.join(f'<parameter={key}>1</parameter>' for key in MANY)}</function>",
    ),
    "text behind a stop": ("hermes", "STOP" + "word " * 1_000_000),
}


@pytest.mark.parametrize(("family", "output"), OUTPUTS.values(), ids=list(OUTPUTS))
def test_long_output_takes_time_in_proportion_to_its_length(family: str, output: str) -> None:
    parser = OutputParser(families.load(family), schemas={"f": {"properties": MANY}}, stops=("STOP",))
    begun_s = thread_time()
    for at in range(0, len(output), CHUNK_CHARS):
        parser.feed(output[at : at + CHUNK_CHARS])
    parser.finish()
    assert thread_time() - begun_s < LIMIT_S
