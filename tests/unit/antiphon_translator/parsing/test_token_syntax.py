from __future__ import annotations

from antiphon_translator.parsing import families
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.token_syntax import PROMPT_TAIL_IDS, TokenSyntax
from tests.support.tool_calls.random_tokens import byte_level
from tests.support.tool_calls.vocabularies import vocabulary


def test_the_end_of_a_prompt_has_a_character_for_each_control_token() -> None:
    tokenizer = vocabulary("", ("<think>",)).tokenizer
    syntax = TokenSyntax(families.load("hermes"), tokenizer)
    (character,) = syntax.alphabet.character_of.values()
    ids = [*tokenizer.encode("<think>"), *(each for letter in "x" * 500 for each in tokenizer.encode(letter))]
    assert syntax.prompt_tail(ids[:9]) == character + "x" * 8
    assert syntax.prompt_tail(ids) == "x" * PROMPT_TAIL_IDS
    assert syntax.prompt_tail(ids, whole=True) == character + "x" * 500


def test_plain_tokens_are_shared_by_all_outputs_of_a_model() -> None:
    syntax, markers = TokenSyntax(families.load("hermes"), byte_level().tokenizer), Markers(("<",))
    table = syntax.plain_tokens(markers)
    assert table is not None
    assert table is syntax.plain_tokens(markers) is not syntax.plain_tokens(Markers(("<",)))
