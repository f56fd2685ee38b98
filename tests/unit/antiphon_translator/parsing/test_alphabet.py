from __future__ import annotations

from antiphon_translator.parsing.alphabet import Alphabet, has_token, is_token

ADDED = {7: "<|call|>", 8: "<|call|>x", 9: "  ", 10: "|", 11: "<unused>", 12: "[ARGS]"}


def test_only_tokens_in_the_family_table_get_a_character() -> None:
    alphabet = Alphabet(ADDED, ["<|call|> name", "x[ARGS]"])
    assert set(alphabet.character_of) == {7, 12}


def test_token_that_is_only_a_part_of_another_token_of_the_table_stays_text() -> None:
    alphabet = Alphabet({1: "<arg_key>", 2: "arg_key", 3: "key>", 4: "<arg"}, ["<arg_key>"])
    assert set(alphabet.character_of) == {1}


def test_markers_survive_encoding_and_decoding() -> None:
    alphabet = Alphabet(ADDED, ["<|call|>", "<|call|>x"])
    assert alphabet.encode("a<|call|>xb<|call|>") == f"a{alphabet.character_of[8]}b{alphabet.character_of[7]}"
    assert alphabet.decode(alphabet.encode("a<|call|>xb<|call|>c")) == "a<|call|>xb<|call|>c"
    assert is_token(alphabet.encode("<|call|>"))
    assert not is_token(alphabet.encode("<|call|>!"))
    assert has_token(alphabet.encode("<|call|>!"))
    assert not has_token("<|call|>")


def test_token_within_json_is_decoded_with_string_escapes() -> None:
    alphabet = Alphabet({1: '<|"|>'}, ['<|"|>'])
    assert alphabet.decode_json(f'"{alphabet.character_of[1]}"') == '"<|\\"|>"'


def test_characters_of_tokens_cannot_occur_in_valid_text() -> None:
    alphabet = Alphabet({number: f"<{number}>" for number in range(100)}, [f"<{number}>" for number in range(100)])
    for character in alphabet.character_of.values():
        assert character.encode("utf-8", "replace") == b"?"
