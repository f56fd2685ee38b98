import pytest
from tokenizers import pre_tokenizers

from antiphon_local_triton.errors import LocalModelError
from antiphon_local_triton.gguf_file import Value
from antiphon_local_triton.gguf_tokenizer import build_tokenizer
from antiphon_local_triton.pretokenizers import PRE_TOKENIZERS

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
MERGES: list[Value] = ["h e", "l l", "he ll", "hell o", "Ġ w", "Ġw o"]
MERGED: list[Value] = [str(merge).replace(" ", "") for merge in MERGES]
BYTE_LEVEL: dict[str, Value] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": ["<|end|>", "<tool>", *ALPHABET, *MERGED],
    "tokenizer.ggml.token_type": [CONTROL, USER_DEFINED, *[NORMAL] * (len(ALPHABET) + len(MERGED))],
    "tokenizer.ggml.merges": MERGES,
}

PIECES: list[tuple[str, float, int]] = [
    ("<unk>", 0.0, UNKNOWN),
    ("<s>", 0.0, CONTROL),
    *[(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)],
    *[(text, -float(rank), NORMAL) for rank, text in enumerate(["he", "ll", "▁he", "llo", "▁hello", "▁", "lo"])],
    *[(letter, -100.0, NORMAL) for letter in "helo"],
]
SENTENCEPIECE: dict[str, Value] = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": [text for text, _, _ in PIECES],
    "tokenizer.ggml.scores": [score for _, score, _ in PIECES],
    "tokenizer.ggml.token_type": [kind for _, _, kind in PIECES],
    "tokenizer.ggml.unknown_token_id": 0,
}


def _pieces(metadata: dict[str, Value], text: str) -> list[str]:
    return list(build_tokenizer(metadata).encode(text, add_special_tokens=False).tokens)


def test_byte_level_merges_by_rank() -> None:
    assert _pieces(BYTE_LEVEL, "hello worl") == ["hello", "Ġwo", "r", "l"]


def test_byte_level_text_survives_encoding_and_decoding() -> None:
    tokenizer = build_tokenizer(BYTE_LEVEL)
    for text in ("hello 😀\n", "  é日本", "\x00\x7f"):
        assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_added_tokens_are_cut_out_first_and_only_control_tokens_are_special() -> None:
    tokenizer = build_tokenizer(BYTE_LEVEL)
    ids = tokenizer.encode("hello<tool>hello<|end|>", add_special_tokens=False).ids
    assert [tokenizer.id_to_token(number) for number in ids] == ["hello", "<tool>", "hello", "<|end|>"]
    assert ids[1::2] == [1, 0]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "hello<tool>hello"


def test_llama_bpe_skips_the_merges_for_words_of_the_vocabulary() -> None:
    tokens = BYTE_LEVEL["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    metadata = {**BYTE_LEVEL, "tokenizer.ggml.tokens": [*tokens, "oh"]}
    assert _pieces(metadata, "oh") == ["o", "h"]
    assert _pieces({**metadata, "tokenizer.ggml.pre": "llama-bpe"}, "oh") == ["oh"]


def test_sentencepiece_joins_the_best_scores_first() -> None:
    assert _pieces(SENTENCEPIECE, "hello hello") == ["▁hello", "▁hello"]
    assert _pieces(SENTENCEPIECE, "llo") == ["▁", "llo"]


def test_sentencepiece_falls_back_to_bytes_and_back() -> None:
    tokenizer = build_tokenizer(SENTENCEPIECE)
    encoded = tokenizer.encode("hello 😀")
    assert encoded.tokens[-4:] == ["<0xF0>", "<0x9F>", "<0x98>", "<0x80>"]
    assert tokenizer.decode(encoded.ids, skip_special_tokens=False) == "hello 😀"


def test_sentencepiece_prefix_can_be_off() -> None:
    assert _pieces({**SENTENCEPIECE, "tokenizer.ggml.add_space_prefix": False}, "hello") == ["he", "llo"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokenizer.ggml.model": "bert"}, "'bert'; known are gpt2, llama"),
        ({"tokenizer.ggml.model": ""}, "'none'"),
        ({"tokenizer.ggml.pre": "martian"}, "'martian'"),
        ({"tokenizer.ggml.tokens": []}, "holds no tokenizer"),
        ({"tokenizer.ggml.model": "llama"}, "no scores"),
    ],
)
def test_an_unknown_tokenizer_is_refused_with_a_hint_at_model_dir(change: dict[str, Value], message: str) -> None:
    with pytest.raises(LocalModelError, match=message) as refused:
        build_tokenizer({**BYTE_LEVEL, **change})
    assert "--model-dir" in str(refused.value)


@pytest.mark.parametrize("pre", sorted(PRE_TOKENIZERS))
def test_every_rule_splits_without_losing_text(pre: str) -> None:
    tokenizer = build_tokenizer({**BYTE_LEVEL, "tokenizer.ggml.pre": pre})
    text = "I'm HelloWORLD 12345 ...!? \r\n\t 日本語 x=y_z  \u0301é\n\n"
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@pytest.mark.parametrize(
    ("pre", "text", "words"),
    [
        ("gpt-2", "it's 123", ["it", "'s", "Ġ123"]),
        ("smollm", "it's 123", ["it", "'s", "Ġ", "1", "2", "3"]),
        ("llama-bpe", "IT'S 12345", ["IT", "'S", "Ġ", "123", "45"]),
        ("qwen2", "a 12\n", ["a", "Ġ", "1", "2", "Ċ"]),
        ("gpt-4o", "camelCase's", ["camel", "Case's"]),
        ("tekken", "camelCase 12", ["camel", "Case", "Ġ", "1", "2"]),
        ("default", "a+b 1234", ["a", "+", "b", "Ġ", "123", "4"]),
    ],
)
def test_pre_tokenizers_split_words_as_specified(pre: str, text: str, words: list[str]) -> None:
    splitter = build_tokenizer({**BYTE_LEVEL, "tokenizer.ggml.pre": pre}).pre_tokenizer
    assert splitter is not None
    assert [word for word, _ in splitter.pre_tokenize_str(text)] == words


@pytest.mark.parametrize("unknown_id", [-1, len(PIECES), 2**32 - 1])
def test_an_unknown_id_outside_the_vocabulary_is_none(unknown_id: int) -> None:
    metadata = SENTENCEPIECE | {"tokenizer.ggml.unknown_token_id": unknown_id}
    assert build_tokenizer(metadata).model.unk_token is None
    assert _pieces(metadata, "hello ✓") == ["▁hello", "▁", "<0xE2>", "<0x9C>", "<0x93>"]


@pytest.mark.parametrize("merge", ["he llo", "q0 q1", "hello", ""])
def test_a_merge_of_unknown_tokens_is_rejected(merge: str) -> None:
    with pytest.raises(LocalModelError, match="merges tokens that it does not have"):
        build_tokenizer(BYTE_LEVEL | {"tokenizer.ggml.merges": [*MERGES, merge]})
