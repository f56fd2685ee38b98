from __future__ import annotations

from dataclasses import replace

from antiphon_translator.parsing.alphabet import Alphabet
from antiphon_translator.parsing.family import Family, PromptStyle
from antiphon_translator.parsing.kinds.json_call import JsonCall
from antiphon_translator.parsing.kinds.tagged_call import TaggedCall

FAMILY = Family(
    name="one",
    reasoning=(("<think>\n", "</think>"),),
    calls=(JsonCall(open=("<call>",), close=("</call>",), section_open=("<calls>",), section_close=("</calls>",)),),
    ignored=("<end>",),
)


def test_open_reasoning_marker_in_the_prompt_begins_in_reasoning() -> None:
    assert FAMILY.begins_in_reasoning("<user>hello<think>")
    assert FAMILY.begins_in_reasoning("<think>a</think>b<think>\n")
    assert not FAMILY.begins_in_reasoning("<think>\n\n</think>\n\n")
    assert not FAMILY.begins_in_reasoning("")


def test_openers_contain_those_of_calls_and_sections() -> None:
    assert set(FAMILY.openers) == {"<call>", "<calls>"}


def test_calls_in_reasoning_are_found_only_if_they_end_it() -> None:
    assert FAMILY.in_reasoning.search("<call>", 0, ended=True)[2] is None
    ending = Family(name="two", reasoning=FAMILY.reasoning, calls=FAMILY.calls, call_ends_reasoning=True)
    assert ending.in_reasoning.search("<call>", 0, ended=True)[2] == "<call>"


def test_translated_table_keeps_its_name_and_replaces_its_literals() -> None:
    markers = ["<call>", "</call>", "one"]
    alphabet = Alphabet(dict(enumerate(markers)), [*FAMILY.markers(), "one"])
    table = FAMILY.encode_literals(alphabet.encode)
    assert table.name == "one"
    assert table.calls[0].open == (alphabet.character_of[0],)
    assert table.calls[0].section_open == ("<calls>",)
    assert table.reasoning == FAMILY.reasoning
    assert table.ignored == ("<end>",)
    stray = alphabet.character_of[1]  # a closer without a call
    assert table.in_text.search(f"a{stray}", 0, ended=True)[2] == stray
    assert table.without_calls.search(f"a{stray}", 0, ended=True)[2] is None


def test_only_literals_that_are_searched_for_are_markers_and_are_translated() -> None:
    syntax = TaggedCall(open=("<c>",), key_open=("<",), key_close=(">",), key_pattern="p", value_close=("</{key}>",))
    family = Family(name="one", calls=(syntax,), forced="f", prompt=PromptStyle(writer="w"))
    assert set(family.markers()) == {"<c>", "<", ">", "</"}
    translated = family.encode_literals(lambda literal: literal.replace("key", "?").replace("p", "?").upper())
    assert translated == replace(family, calls=(replace(syntax, open=("<C>",)),))
    assert family.encode_literals(lambda _literal: "x").prompt == family.prompt


def test_all_literals_of_a_family_are_markers() -> None:
    assert {"<think>\n", "</think>", "<call>", "</call>", "<calls>", "</calls>", "<end>"} <= set(FAMILY.markers())
