"""Dead ends of grammars."""

from time import thread_time

import pytest

from antiphon_tokens.gbnf import dead_ends


@pytest.mark.parametrize(
    ("grammar", "rule"),
    [
        ("root ::= [5-1]", "root"),
        ('root ::= "a" x\nx ::= "b" | "c" [z-a]', "x"),
        ('root ::= "a" ("b" | [^\\x00-\\U0010FFFF])', "root"),
        ('root ::= "a" [^\\x00-\\x40\\x41-\\U0010FFFF]?', "root"),
        ('root ::= "a" x*\nx ::= y\ny ::= "b" y', "y"),
        ('root ::= "a" root', "root"),
        ('root ::= "[5-1]" x # [5-1]\nx ::= "\\"" [\\]-\\[] "\\""', "x"),
    ],
)
def test_dead_end_is_found_by_its_rule(grammar: str, rule: str) -> None:
    assert dead_ends.dead_end(grammar) == rule


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= "a" | "b" root',
        'root ::= ""',
        "root ::= [^a] [a-] [-a] [\\\\\\]] [5-5] . <[3]> !<|im_end|>",
        'root ::= "{" (x ("," x)*)? "}"\nx ::= [0-9]{1,3} # "unclosed',
        'root ::= "a"\nunused ::= [5-1]',
        'root   ::= (\n  "a" |\n  "b"\n){2}\nfoo-1_b::="c"',
        "root ::= [\\x61-\\u0062]",
    ],
)
def test_grammar_without_dead_ends_has_none(grammar: str) -> None:
    assert dead_ends.dead_end(grammar) is None


@pytest.mark.parametrize(
    ("grammar", "rule"),
    [
        ('root ::= "a" | "b" | "c|d"', None),
        ('root ::= "a" | "b" | "c" | "d"', "root"),
        ('root ::= x ("a" | [|] | "b")\nx ::= "c" ("d" ("e" | "f" | "g" | ) )', "x"),
    ],
)
def test_rule_with_too_many_alternatives_at_one_place_is_found(grammar: str, rule: str | None) -> None:
    assert dead_ends.rule_with_more_alternatives(grammar, 3) == rule


def test_text_that_is_no_grammar_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        dead_ends.dead_end("root ::= $")


def test_chain_of_rules_takes_time_in_proportion_to_its_length() -> None:
    """In one of the directions, 4,000 rules took 10 s."""
    chain = [f"r{number} ::= r{number + 1}" for number in range(4_000)]
    begun_s = thread_time()
    for rules in (chain, chain[::-1]):
        assert dead_ends.dead_end("\n".join(["root ::= r0", 'r4000 ::= "a"', *rules])) is None
    assert thread_time() - begun_s < 2
