"""Dead ends of grammars. The module is loaded by path, because its folder is no package."""

import importlib.util
import sys
from types import ModuleType

import pytest

from antiphon_local_triton.repository import MODEL_NAME, TEMPLATE_REPOSITORY


@pytest.fixture(scope="module")
def dead_ends() -> ModuleType:
    path = TEMPLATE_REPOSITORY / MODEL_NAME / "1" / "dead_ends.py"
    spec = importlib.util.spec_from_file_location("packaged_dead_ends", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


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
def test_dead_end_is_found_by_its_rule(dead_ends: ModuleType, grammar: str, rule: str) -> None:
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
def test_grammar_without_dead_ends_has_none(dead_ends: ModuleType, grammar: str) -> None:
    assert dead_ends.dead_end(grammar) is None


def test_text_that_is_no_grammar_is_an_error(dead_ends: ModuleType) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        dead_ends.dead_end("root ::= $")
