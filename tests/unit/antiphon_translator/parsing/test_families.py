from __future__ import annotations

import pytest

from antiphon_translator.parsing import families
from antiphon_translator.parsing.family import PromptStyle
from antiphon_translator.parsing.kinds.harmony import Harmony


@pytest.mark.parametrize("name", families.names())
def test_every_family_table_can_be_loaded(name: str) -> None:
    family = families.load(name)
    assert family.name == name
    assert all(call.open for call in family.calls)
    assert isinstance(families._rules(name), list)


def test_family_tables_are_read() -> None:
    assert families.load("plain").calls == ()
    assert isinstance(families.load("gpt_oss").grammar, Harmony)
    assert families.load("gpt_oss").prompt == PromptStyle(writer="harmony")
    assert families.load("hermes").prompt == PromptStyle()
    assert families.load("hermes").reasoning == (("<think>", "</think>"),)


def test_unknown_family_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="nobody"):
        families.load("nobody")
    with pytest.raises(KeyError):
        families.load("../families/hermes")


def test_invalid_table_is_rejected_with_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (
        {"colour": "red"},
        {"prompt": {"colour": "red"}},
        {"calls": [{"kind": "unheard of"}]},
        {"calls": [{"kind": "json", "opens": ["a"]}]},
    ):
        monkeypatch.setattr(families, "_table", lambda _name, table=table: table)
        with pytest.raises(ValueError, match="families/broken.toml"):
            families.load.__wrapped__("broken")


def test_rule_matches_only_if_all_marks_and_no_excluded_mark_are_present() -> None:
    rule = families.Rule(template=("a", "b"), without=("c",), vocabulary=("<x>",))
    assert rule.weight("a b", {"<x>", "<y>"}) == 3
    assert rule.weight("a b c", {"<x>"}) == rule.weight("a", {"<x>"}) == rule.weight("a b", set()) == 0


def test_family_without_a_template_is_detected_from_the_vocabulary() -> None:
    assert families.detect("", {"<|open|>", "<|close|>", "<|sep|>"}) == "kimi_k3"
    assert families.detect("", {"<|tool_call_argument_begin|>"}) == "kimi_k2"
    assert families.detect("", {"<|channel|>", "<|message|>", "<|constrain|>", "<|call|>"}) == "gpt_oss"
    assert families.detect("Hello", {"<|im_end|>"}) == families.PLAIN


def test_tie_between_families_is_detected_as_plain() -> None:
    assert families.detect("<TOOLCALL>", ()) == "nemotron_nano_v2"
    assert families.detect("<TOOLCALL> <|tools_prefix|>", ()) == families.PLAIN
