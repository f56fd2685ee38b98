from __future__ import annotations

from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

from antiphon_translator.tokenizer import separators
from tests.support.served_models import tokenizer


def vocabulary(
    *added: str | AddedToken, model: Any = None, normalizer: Any = None, splitter: Any = None, post: Any = None
) -> Tokenizer:
    made = Tokenizer(model or models.BPE({letter: n for n, letter in enumerate("ab")}, []))
    if normalizer is not None:
        made.normalizer = normalizer
    if splitter is not None:
        made.pre_tokenizer = splitter
    if post is not None:
        made.post_processor = post
    made.add_tokens([AddedToken(each, normalized=False) if isinstance(each, str) else each for each in added])
    return made


def template(single: str) -> processors.TemplateProcessing:
    return processors.TemplateProcessing(single=single, special_tokens=[("<s>", 0)])


def sampling(**settings: Any) -> models.Unigram:
    made = models.Unigram([("a", 0.0)], 0)
    for name, value in settings.items():
        setattr(made, name, value)
    return made


def names(*added: str | AddedToken, **parts: Any) -> set[str]:
    return set(separators.of(vocabulary(*added, **parts)))


def test_separators_of_smollm2_are_its_added_tokens() -> None:
    assert tokenizer().separators == set(tokenizer().added.values())
    assert {"<|im_start|>", "<|im_end|>", "<|endoftext|>"} <= tokenizer().separators


@pytest.mark.parametrize(
    "token",
    [
        AddedToken("<x>", normalized=False, lstrip=True),
        AddedToken("<x>", normalized=False, rstrip=True),
        AddedToken("<x>", normalized=False, single_word=True),
        AddedToken("<x>", normalized=True),
    ],
)
def test_token_that_consumes_or_checks_its_surroundings_is_no_separator(token: AddedToken) -> None:
    assert names(token, "<y>") == {"<y>"}


@pytest.mark.parametrize(
    ("added", "found"),
    [
        (["<x>", "<y>"], {"<x>", "<y>"}),
        (["<x>", "<x>>"], {"<x>>"}),  # the longer token is found in place of the shorter
        (["<x>", "a<"], {"a<"}),  # a< reaches into <x>
        (["<x>", "a<x>b"], {"a<x>b"}),
        (["aa"], set()),  # in "aaa" the token is found once, at either position
        (["\n", "\n\n", "<x>"], {"<x>"}),
    ],
)
def test_token_that_overlaps_another_is_no_separator(added: list[str], found: set[str]) -> None:
    assert names(*added) == found


@pytest.mark.parametrize(
    "parts",
    [
        {"normalizer": normalizers.Sequence([])},
        {"normalizer": normalizers.NFC()},
        {"normalizer": normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])},
        {"splitter": pre_tokenizers.Metaspace(prepend_scheme="always")},
        {"splitter": pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.ByteLevel()])},
        {"model": models.Unigram([("a", 0.0)], 0)},
        {"post": processors.Sequence([processors.ByteLevel(), template("<s> $A")])},
    ],
)
def test_steps_that_process_single_pieces_keep_the_separators(parts: dict[str, Any]) -> None:
    assert names("<x>", **parts) == {"<x>"}


@pytest.mark.parametrize(
    "parts",
    [
        {"splitter": pre_tokenizers.Metaspace(prepend_scheme="first")},
        {"splitter": pre_tokenizers.Sequence([pre_tokenizers.Metaspace(prepend_scheme="first")])},
        {"splitter": pre_tokenizers.UnicodeScripts()},  # perhaps harmless, but not known to be
        {"normalizer": normalizers.BertNormalizer()},
        {"model": models.BPE({"a": 0, "b": 1}, [], dropout=0.5)},
        {"model": sampling(alpha=0.1)},
        {"model": sampling(nbest_size=4)},
        {"post": template("$A $A")},
        {"model": models.WordLevel({"a": 0}, unk_token="a")},
    ],
)
def test_component_that_is_not_known_to_be_safe_leaves_no_separators(parts: dict[str, Any]) -> None:
    assert names("<x>", **parts) == set()


def test_control_tokens_that_are_read_as_text_are_no_separators() -> None:
    made = vocabulary("<x>")
    made.encode_special_tokens = True
    assert separators.of(made) == set()
