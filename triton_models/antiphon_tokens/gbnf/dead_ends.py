"""Finds dead ends in a grammar of llama.cpp (GBNF): places that a generation can reach and where nothing can follow.

llama.cpp ends the process when it samples at a dead end, so a grammar with one must not be sampled from. A symbol is
productive if it can become a text: a character or a token always, a class if it has a character, a sequence if all its
parts are productive, alternatives if one is. A grammar has a dead end if a part that can be reached is not productive.

    root ::= "{" x "}"
    x ::= [5-1]             a class without a character: nothing follows the brace

Only grammars that llama.cpp has parsed are read here, so that errors of syntax need no care.
"""

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
    |(?P<define>[a-zA-Z0-9_-]+\s*::=)
    |(?P<name>[a-zA-Z0-9_-]+)
    |(?P<literal>"(?:\\.|[^"\\])*")
    |(?P<class>\[(?:\\.|[^\]\\])*\])
    |(?P<token>!?<[^>]*>)
    |(?P<repeat>[*+?]|\{[^}]*\})
    |(?P<open>\()|(?P<close>\))|(?P<or>\|)|(?P<any>\.)""",
    re.VERBOSE | re.DOTALL,
)
_CHARACTER = re.compile(r"\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\.|[^\\]", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
LAST = 0x10FFFF


@dataclass(eq=False)
class _Part:
    """A symbol that is productive by itself, or never, or if the rule `name` or a `group` is. `is_optional`: it may be
    left out."""

    is_productive: bool = False
    name: str = ""
    group: "list[list[_Part]] | None" = None
    is_optional: bool = False


@dataclass(eq=False)
class _Reader:
    rules: dict[str, list[list[_Part]]] = field(default_factory=dict)
    open: list[list[list[_Part]]] = field(default_factory=list)

    def read(self, grammar: str) -> dict[str, list[list[_Part]]]:
        at = 0
        while at < len(grammar):
            found = _TOKEN.match(grammar, at)
            if found is None:
                raise ValueError(f"the grammar cannot be read at {grammar[at : at + 20]!r}")
            at = found.end()
            self.take(str(found.lastgroup), found.group())
        return self.rules

    def take(self, kind: str, text: str) -> None:
        if kind == "space":
            return
        if kind == "define":
            alternatives = self.rules[text.removesuffix("::=").strip()] = [[]]
            self.open = [alternatives]
            return
        sequence = self.open[-1][-1]
        if kind == "or":
            self.open[-1].append([])
        elif kind == "open":
            self.open.append([[]])
        elif kind == "close":
            group = self.open.pop()
            self.open[-1][-1].append(_Part(group=group))
        elif kind == "repeat":
            sequence[-1].is_optional |= text in "*?" or re.match(r"\{\s*0*\s*[,}]", text) is not None
        elif kind == "name":
            sequence.append(_Part(name=text))
        else:
            sequence.append(_Part(is_productive=kind != "class" or _has_character(text[1:-1])))


def dead_end(grammar: str) -> str | None:
    """The name of a rule with a dead end that can be reached; None if there is none. ValueError: the grammar cannot be
    read."""
    rules = _Reader().read(grammar)
    productive: set[str] = set()
    names, count = list(rules), -1
    while len(productive) > count:
        count = len(productive)
        names.reverse()  # a chain of rules takes one round in its direction, and one round for each rule in the other
        for name in names:
            if _is_productive(rules[name], productive):
                productive.add(name)
    reached = _reachable_rules(rules)
    dead = [name for name in reached if name not in productive]
    if dead:
        return dead[-1]
    return next((name for name in reached if not _is_whole(rules[name], productive)), None)


def rule_with_more_alternatives(grammar: str, most: int) -> str | None:
    """The name of a rule with more than `most` alternatives at one place; None if there is none. ValueError: the
    grammar cannot be read."""
    for name, alternatives in _Reader().read(grammar).items():
        groups = [alternatives]
        while groups:
            group = groups.pop()
            if len(group) > most:
                return name
            groups += [part.group for sequence in group for part in sequence if part.group is not None]
    return None


def _is_productive(alternatives: list[list[_Part]], rules: set[str]) -> bool:
    """Whether one of the alternatives can become a text, if `rules` can."""
    return any(all(part.is_optional or _can_be_text(part, rules) for part in sequence) for sequence in alternatives)


def _can_be_text(part: _Part, rules: set[str]) -> bool:
    return part.is_productive or part.name in rules or (part.group is not None and _is_productive(part.group, rules))


def _is_whole(alternatives: list[list[_Part]], rules: set[str]) -> bool:
    """Whether every part of the alternatives can become a text, also the optional ones."""
    return all(
        _can_be_text(part, rules) and (part.group is None or _is_whole(part.group, rules))
        for sequence in alternatives
        for part in sequence
    )


def _reachable_rules(rules: dict[str, list[list[_Part]]]) -> list[str]:
    """The names of the rules that `root` leads to."""
    reached, waiting = {"root": None}, ["root"]
    while waiting:
        groups = [rules[waiting.pop()]]
        while groups:
            for part in (part for sequence in groups.pop() for part in sequence):
                if part.group is not None:
                    groups.append(part.group)
                elif part.name and part.name not in reached:
                    reached[part.name] = None
                    waiting.append(part.name)
    return list(reached)


def _has_character(inside: str) -> bool:
    """Whether a class has a character. `inside` is the text between its brackets."""
    is_negated = inside.startswith("^")
    ranges = sorted(_ranges(inside[is_negated:]))
    if not is_negated:
        return bool(ranges)
    end = -1
    for first, last in ranges:
        if first > end + 1:
            return True
        end = max(end, last)
    return end < LAST


def _ranges(inside: str) -> list[tuple[int, int]]:
    """The ranges of a class that have a character."""
    written = _CHARACTER.findall(inside)
    ranges, characters = [], list(map(_code, written))
    at = 0
    while at < len(written):
        is_range = at + 2 < len(written) and written[at + 1] == "-"
        first, last = characters[at], characters[at + 2] if is_range else characters[at]
        if first <= last:
            ranges.append((first, last))
        at += 3 if is_range else 1
    return ranges


def _code(character: str) -> int:
    """The code of a character, maybe escaped."""
    if len(character) > 2:
        return int(character[2:], 16)
    return ord(_ESCAPES.get(character[-1], character[-1]) if len(character) == 2 else character)
