from __future__ import annotations

import re

from antiphon_translator.parsing.alphabet import Alphabet, has_token, is_token

ADDED = {7: "<|call|>", 8: "<|call|>x", 9: "  ", 10: "|", 11: "<unused>", 12: "[ARGS]"}


def test_only_tokens_in_the_family_table_get_a_character() -> None:
    alphabet = Alphabet(ADDED, ["<|call|> name", r"(?P<name>.*)\[ARGS\]"])
    assert set(alphabet.character_of) == {7, 12}


def test_markers_survive_encoding_and_decoding() -> None:
    alphabet = Alphabet(ADDED, ["<|call|>", "<|call|>x"])
    assert alphabet.encode("a<|call|>xb<|call|>") == f"a{alphabet.character_of[8]}b{alphabet.character_of[7]}"
    assert alphabet.decode(alphabet.encode("a<|call|>xb<|call|>c")) == "a<|call|>xb<|call|>c"
    assert is_token(alphabet.encode("<|call|>"))
    assert not is_token(alphabet.encode("<|call|>!"))
    assert has_token(alphabet.encode("<|call|>!"))
    assert not has_token("<|call|>")


def test_token_spelt_with_escapes_in_a_pattern_is_encoded() -> None:
    alphabet = Alphabet(ADDED, [r"(?P<name>.*)\[ARGS\]"])
    pattern = alphabet.encode(r"(?P<name>.*)\[ARGS\]")
    match = re.fullmatch(pattern, "f" + alphabet.character_of[12])
    assert match is not None
    assert match["name"] == "f"
    assert re.fullmatch(pattern, "f[ARGS]") is None


def test_token_within_json_is_decoded_with_string_escapes() -> None:
    alphabet = Alphabet({1: '<|"|>'}, ['<|"|>'])
    assert alphabet.decode_json(f'"{alphabet.character_of[1]}"') == '"<|\\"|>"'


def test_characters_of_tokens_cannot_occur_in_valid_text() -> None:
    alphabet = Alphabet({number: f"<{number}>" for number in range(100)}, [f"<{number}>" for number in range(100)])
    for character in alphabet.character_of.values():
        assert character.encode("utf-8", "replace") == b"?"
