"""Random outputs for fuzzing parsers: markers of a family, pieces of calls and hostile text in any order, and
the invariants of their parsing."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from antiphon_core.jsons import Object
from antiphon_core.limits import GIVE_BACK_CHARS_MAX
from antiphon_translator.parsing import families
from antiphon_translator.parsing.alphabet import Alphabet
from antiphon_translator.parsing.family import Family
from antiphon_translator.parsing.kinds.harmony import Harmony
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.reading import is_name
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, Reasoning, Segment, Text
from tests.support.tool_calls.outcomes import joined
from tests.support.tool_calls.vectors import all_vectors

SCHEMAS: dict[str, Object] = {
    "f": {"properties": {"x": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": "object"}}},
    "g": {"properties": {}},
    "h": {},
}
HOSTILE = (
    *("a", "word", "naïve ☃", "\n", " ", "\n\n", "  \t", "\\", "'", '"', "`", "```", "```json\n"),
    *("<", ">", "</", "|>", "<|", "/>", "{", "}", "[", "]", "(", ")", ",", ":", ";", "=", "{}", "[]"),
    *("null", "true", "NaN", "1e20", "-0", "0" * 30, "\ufffd", "\U000f0001", "\x00", '"\\u00e9\\'),
    *("f", "g", "h", "functions.f", "call:f", "f(x=1)", "[f(x='\\d', n=2), g()]", "x", "n", "o", "unknown"),
    *('"name"', '"arguments"', '"parameters"', '"name": "f"', '"arguments": {', '"arguments": "{}"', '{"f": {}}'),
    *('{"name": "f", "arguments": {"x": "1"}}', '{"arguments": {}, "name": "g"}', '{"x": "}</tool_call>"}'),
    *('[{"name": "g", "parameters": null}]', "f\n", "x\n", 'x">', 'f">', "x:", "to=functions.f", "to=functions."),
    *("call", "call:{", 'call tool="f"', "argument", 'key="x" type="string"', "think", "response", "assistant"),
    *("analysis", "commentary", "final"),
)
# Contexts in which models mention or quote markers, each at a %.
SETTINGS = (
    *("Use the % tag.\n\n", "`%`", '"%"', "(%) ", "between % and %, then ", "First, % opens it.\n%", "Say %", "% "),
    *("\n```xml\n%\n```\n", "```\n%f\n%\n", '{"name": "f", "arguments": {"x": "a % b"}}', '{"x": "%"}', "x\n%\n%"),
    *("I could write % here, but no.", "\n%\n", "%%", "% f\n", "%\n{", "%f{", "\r\n  %", "a\r\n%\r\n"),
)
HEADERS = {
    "apertus": re.compile(r"\{\}"),
    "gpt_oss": re.compile(r"<\|\w+\|>|to=[^\s<\ud800-\udfff]*|assistant|analysis|commentary|final|json|[<|]"),
    "kimi_k3": re.compile(r"(?:<\|(?:open|close)\|>|[\ud800-\udfff])\s*\w*(?:\s+\w+(?:=\"[^\"]*\"?)?)*"),
}
"""The words of headers and tags, in families whose grammar has them; in Apertus, an object of no calls."""
LONG = "so many words " * (GIVE_BACK_CHARS_MAX // 12)
LEFTOVER_CHARS_MAX = 100  # longer ones cost time and find nothing new


@dataclass(frozen=True)
class OutputFuzzer:
    """A generator of random outputs of a family. Its markers are text, or one control token each."""

    family: Family
    markers: tuple[str, ...]
    leftovers: tuple[str, ...]
    """Outputs of the family's models, split before each marker."""

    def random_output(self, chance: random.Random, *, pieces: int) -> str:
        shelves = (self.markers, HOSTILE, self.leftovers or HOSTILE)
        return "".join(chance.choice(chance.choices(shelves, (3, 4, 3))[0]) for _ in range(pieces))

    def quoted_markers(self, chance: random.Random, *, pieces: int) -> str:
        """Returns quoted markers in prose, thoughts, code fences and arguments, among calls, and sometimes after a long
        text."""
        written = []
        for _ in range(pieces):
            if chance.random() < 0.6:
                parts = chance.choice(SETTINGS).split("%")
                written.append("".join(part + chance.choice(self.markers) for part in parts[:-1]) + parts[-1])
            else:
                written.append(chance.choice(self.leftovers or HOSTILE))
        if chance.random() < 0.01:
            written.insert(chance.randrange(len(written)), LONG)
        return "".join(written)


@cache
def output_fuzzer(name: str, *, tokens: bool) -> OutputFuzzer:
    family = families.load(name)
    markers = tuple(dict.fromkeys(family.markers())) or HOSTILE
    leftovers = _leftovers(name, markers)
    if not tokens:
        return OutputFuzzer(family, markers, leftovers)
    alphabet = Alphabet(dict(enumerate(markers)), markers)
    encoded = (tuple(map(alphabet.encode, texts)) for texts in (markers, leftovers))
    return OutputFuzzer(family.encode_literals(alphabet.encode), *encoded)


def _leftovers(name: str, markers: tuple[str, ...]) -> tuple[str, ...]:
    any_marker = "|".join(map(re.escape, sorted(markers, key=len, reverse=True)))
    written = [vector.raw for vector in all_vectors() if vector.family == name]
    pieces = (piece for raw in written for piece in re.split(f"(?={any_marker})", raw))
    return tuple(dict.fromkeys(piece for piece in pieces if 0 < len(piece) <= LEFTOVER_CHARS_MAX))


def parsed(family: Family, pieces: Iterable[str], *, tail: str = "") -> list[Segment]:
    parser = OutputParser(family, schemas=SCHEMAS, prompt_tail=tail)
    segments = [segment for piece in pieces for segment in parser.feed(piece)]
    return joined([*segments, *parser.finish()])


def check(family: Family, output: str, pieces: Sequence[str], *, tail: str = "") -> None:
    """Parses a random output whole and in pieces. AssertionError: an invariant is violated."""
    whole = parsed(family, [output], tail=tail)
    assert parsed(family, pieces, tail=tail) == whole, (family.name, output, pieces)
    in_call = False
    arguments = ""
    for segment in whole:
        match segment:
            case CallBegin(name):
                assert not in_call, (family.name, output)
                assert name in SCHEMAS or is_name(name), (family.name, output)
                in_call, arguments = True, ""
            case Arguments(text):
                assert in_call, (family.name, output)
                arguments += text
            case CallEnd(is_complete):
                assert in_call, (family.name, output)
                in_call = False
                if is_complete:
                    assert isinstance(json.loads(arguments), dict), (family.name, output)
            case Text() | Reasoning():
                assert not in_call, (family.name, output)
    assert not in_call, (family.name, output)
    assert is_shown(whole) or not has_words(family, output), (family.name, output)


def is_shown(segments: Iterable[Segment]) -> bool:
    """Whether a client sees something of an output: text, reasoning or a call."""
    return any(isinstance(each, Text | Reasoning | CallBegin) for each in segments)


def has_words(family: Family, output: str) -> bool:
    """Whether an output has more than white space, markers, and the words of the tags and headers of its family."""
    if isinstance(family.grammar, Harmony):
        here = family.grammar
        openers, ends = (
            "|".join(map(re.escape, each)) for each in ((here.channel, here.start, here.constrain), here.ends)
        )
        output = re.sub(f"(?s)(?:{openers})(?:(?!{ends}).)*?{re.escape(here.message)}", "", output)
    header = HEADERS.get(family.name)
    return not family.markup.is_all_of(header.sub("", output) if header is not None else output)


def told(segments: Iterable[Segment]) -> str:
    """Returns all text that was shown or counted as dropped, without white space."""
    return "".join("".join(each.text.split()) for each in segments if isinstance(each, Text | Reasoning))


def pieces_of(output: str, chance: random.Random) -> list[str]:
    pieces, at = [], 0
    while at < len(output):
        size = chance.randint(1, 6)
        pieces.append(output[at : at + size])
        at += size
    return pieces
