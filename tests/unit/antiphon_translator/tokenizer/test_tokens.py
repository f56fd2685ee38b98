from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.decoders import DecodeStream
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing

from antiphon_translator.tokenizer import tokens
from antiphon_translator.tokenizer.tokens import PENDING_IDS_MAX, Detokenizer, ModelTokenizer
from tests.support.served_models import tokenizer, write_directory

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
IDS = st.lists(st.integers(0, 49_151) | st.sampled_from([173, 242, 10813, 0, 1, 2]), max_size=60)


def decoded(ids: list[int], *, prompt: list[int] | None = None, cut_off: bool = False) -> str:
    detokenizer = Detokenizer(tokenizer(), prompt_ids=prompt or [])
    return "".join(map(detokenizer.feed, ids)) + detokenizer.finish(cut_off=cut_off)


def encoded(text: str) -> list[int]:
    return tokenizer().encode(text)


@given(TEXTS)
def test_streamed_decoding_equals_decoding_at_once(text: str) -> None:
    ids = encoded(text)  # compared with the decoded ids, because this vocabulary lacks a few bytes
    assert decoded(ids) == tokenizer().decode(ids)
    assert decoded(ids, prompt=encoded("user\nhello<|im_end|>\n")) == tokenizer().decode(ids)


def test_multilingual_text_survives_encoding_and_decoding() -> None:
    text = "naïve Größe 北京 👩‍👩‍👧 עברית \t  x\n"
    assert decoded(encoded(text)) == text


@given(IDS)
def test_any_ids_are_decoded_with_a_bounded_pending_run(ids: list[int]) -> None:
    detokenizer = Detokenizer(tokenizer())
    for token_id in ids:
        assert len(detokenizer._run) - detokenizer._emitted < PENDING_IDS_MAX
        detokenizer.feed(token_id)
    detokenizer.finish(cut_off=False)


def test_character_of_several_tokens_is_emitted_when_it_is_complete() -> None:
    detokenizer = Detokenizer(tokenizer())
    ids = encoded("☃")
    assert len(ids) == 3
    assert [detokenizer.feed(token_id) for token_id in ids] == ["", "", "☃"]


def test_finish_flushes_pending_text_once() -> None:
    detokenizer = Detokenizer(tokenizer())
    (token_id,) = encoded("\ufffd")
    assert detokenizer.feed(token_id) == ""
    assert detokenizer.finish(cut_off=False) == "\ufffd"
    assert detokenizer.finish(cut_off=False) == ""


def test_cut_off_character_is_left_out() -> None:
    half = encoded("ab☃")[:-1]
    assert decoded(half, cut_off=True) == "ab"
    assert decoded(half, cut_off=False) == "ab\ufffd"
    assert decoded(encoded("ab\ufffd"), cut_off=True) == "ab\ufffd"


def test_run_of_invalid_bytes_is_emitted_at_the_pending_limit() -> None:
    (lead, *_) = encoded("☃")
    detokenizer = Detokenizer(tokenizer())
    texts = [detokenizer.feed(lead) for _ in range(4 * PENDING_IDS_MAX)]
    assert [len(text) for text in texts if text] == [PENDING_IDS_MAX] * 4
    assert "".join(texts) == "\ufffd" * 4 * PENDING_IDS_MAX
    assert "".join(map(detokenizer.feed, encoded("then text"))) == "then text"


def test_ids_outside_the_vocabulary_decode_to_nothing() -> None:
    hello = encoded("Hello there")
    strange = [tokenizer().size, 2**31, 2**40, -1]
    assert decoded([hello[0], *strange, *hello[1:]]) == "Hello there"


def test_added_tokens_are_decoded_as_their_text_and_end_a_run() -> None:
    half = encoded("☃")[:2]
    assert decoded([*half, 3, *encoded("x")]) == "\ufffd<repo_name>x"
    assert decoded([1, 2]) == "<|im_start|><|im_end|>"


def test_incomplete_character_at_the_end_of_a_prompt_is_not_repeated() -> None:
    assert decoded(encoded("yes"), prompt=encoded("a☃")[:-1]) == "yes"


@pytest.fixture(scope="module")
def sentencepiece() -> ModelTokenizer:
    """A tokenizer whose decoder strips the first space, like that of Llama 2."""
    vocab = {piece: n for n, piece in enumerate(["▁Hello", "▁there", "▁", "!", "<0xE2>", "<0x98>", "<0x83>"])}
    made = Tokenizer(BPE(vocab, [], byte_fallback=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made.add_tokens([AddedToken("</s>", special=True)])
    return ModelTokenizer(made)


def test_the_first_space_of_an_answer_is_kept(sentencepiece: ModelTokenizer) -> None:
    primed = Detokenizer(sentencepiece, prompt_ids=[3])
    assert [primed.feed(token_id) for token_id in (0, 1)] == [" Hello", " there"]
    after_marker = Detokenizer(sentencepiece, prompt_ids=[3])
    assert [after_marker.feed(token_id) for token_id in (7, 0)] == ["</s>", " Hello"]
    assert [Detokenizer(sentencepiece).feed(0)] == ["Hello"]


def test_flush_after_a_first_space_does_not_repeat_text(sentencepiece: ModelTokenizer) -> None:
    detokenizer = Detokenizer(sentencepiece, prompt_ids=[3])
    texts = [detokenizer.feed(token_id) for token_id in (0, 4, 5)]
    # This decoder writes one U+FFFD for each byte. The test shows that " Hello" is not repeated.
    assert texts == [" Hello", "", ""]
    assert detokenizer.finish(cut_off=False) == "\ufffd\ufffd"


@given(st.lists(TEXTS | st.sampled_from(["<|im_start|>", "<|im_end|>", " ", "\n"]), max_size=8))
def test_text_of_ids_is_what_a_detokenizer_makes_of_them(texts: list[str]) -> None:
    ids, spelling = encoded("".join(texts)), {tokenizer().token_id("<|im_end|>") or 0: "\ud800"}
    detokenizer = Detokenizer(tokenizer(), spelling=spelling)
    one_by_one = "".join(map(detokenizer.feed, ids)) + detokenizer.finish(cut_off=False)
    assert tokenizer().text_of(ids, spelling) == one_by_one


class BreakingStream:
    """A decode stream whose second step fails, as the library's does after some invalid bytes."""

    steps = 0

    def __init__(self, ids: list[int]) -> None:
        self._stream = DecodeStream(ids)

    def step(self, library: Tokenizer, token_id: int) -> str | None:
        BreakingStream.steps += 1
        if BreakingStream.steps == 2:
            raise Exception("Invalid prefix encountered")  # the library raises a plain Exception
        text: str | None = self._stream.step(library, token_id)
        return text


def test_decode_stream_that_fails_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "DecodeStream", BreakingStream)
    monkeypatch.setattr(BreakingStream, "steps", 0)
    assert "".join(map(Detokenizer(tokenizer()).feed, encoded("one two three"))) == "one two three"
    assert BreakingStream.steps > 2


def test_tokenizer_is_loaded_or_raises_an_error_with_its_file(tmp_path: Path) -> None:
    directory = write_directory(tmp_path / "m")
    loaded = ModelTokenizer.load(directory / "tokenizer.json")
    assert (loaded.size, loaded.token_id("<|im_end|>"), loaded.token_id("<nothing>")) == (49_152, 2, None)
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ValueError, match="bad.json"):
        ModelTokenizer.load(tmp_path / "bad.json")
    with pytest.raises(OSError, match="none.json"):
        ModelTokenizer.load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("<|im_start|> $A", "<|im_start|>"),
        ("<|im_start|> $A <|im_end|>", "<|im_start|>"),
        ("$A <|im_end|>", ""),
        (None, ""),
    ],
)
def test_text_that_the_tokenizer_puts_before_each_prompt_is_known(form: str | None, expected: str) -> None:
    made = Tokenizer.from_str(tokenizer().library.to_str())
    if form is not None:
        made.post_processor = TemplateProcessing(form, special_tokens=[("<|im_start|>", 1), ("<|im_end|>", 2)])
    assert ModelTokenizer(made).added_beginning == expected


def test_truncation_and_padding_of_the_tokenizer_file_are_switched_off() -> None:
    trained = Tokenizer(BPE({"a": 0, "<pad>": 1}, []))
    trained.enable_truncation(2)
    trained.enable_padding(length=8, pad_id=1, pad_token="<pad>")
    assert ModelTokenizer(trained).encode("aaaa") == [0, 0, 0, 0]


def test_long_answer_is_decoded_with_a_bounded_number_of_ids() -> None:
    text = "naïve Größe 北京 👩‍👩‍👧 and then some words. " * 400
    detokenizer = Detokenizer(tokenizer())
    pieces = [detokenizer.feed(token_id) for token_id in encoded(text)]
    assert len(detokenizer._run) < 100
    assert "".join(pieces) + detokenizer.finish(cut_off=False) == text
