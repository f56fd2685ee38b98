"""The pre-tokenizers of byte-level BPE models, which split text into words before merging, as llama.cpp has them.

A GGUF file has only the name of the rule (`tokenizer.ggml.pre`); the patterns are those of llama.cpp. They are applied
one after the other: each match becomes a piece, and so does the text between matches. A name that is missing here is an
error, because a guessed rule would give token ids that the model was not trained on.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_SUFFIXES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_BEFORE_WORD = r"[^\r\n\p{L}\p{N}]?"


def _words(letters: str, digits: str) -> str:
    """The pattern of Llama 3 and Qwen, which differ in the parts for letters and for digits."""
    symbols = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
    return rf"{_SUFFIXES}|{_BEFORE_WORD}{letters}+|{digits}|{symbols}|{_SPACES}"


def _cased_words(suffixes: str, digits: str) -> str:
    """The pattern of o200k and Tekken, which also splits between a lower-case and an upper-case letter."""
    words = (
        rf"{_BEFORE_WORD}{_UPPER}*{_LOWER}+{suffixes}",
        rf"{_BEFORE_WORD}{_UPPER}+{_LOWER}*{suffixes}",
    )
    return rf"{'|'.join(words)}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """The patterns, in order, and whether a word that is itself a token skips the merges."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False


_DIGIT_THEN_GPT2 = PreTokenizer((r"\p{N}", _GPT2))
_ONLY_GPT2 = PreTokenizer((_GPT2,))
_LLAMA3 = PreTokenizer((_words(r"\p{L}", r"\p{N}{1,3}"),), ignore_merges=True)
_QWEN2 = PreTokenizer((_words(r"\p{L}", r"\p{N}"),))
_QWEN35 = PreTokenizer(
    (
        rf"{_SUFFIXES}|{_BEFORE_WORD}[\p{{L}}\p{{M}}]+|\p{{N}}"
        rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}",
    )
)
_DEEPSEEK3 = PreTokenizer(
    (
        r"\p{N}{1,3}",
        "[一-龥\u3040-\u30ff]+",
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}",
    )
)

PRE_TOKENIZERS: Mapping[str, PreTokenizer] = {
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "mellum2"), _DIGIT_THEN_GPT2),
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "gigachat"), _ONLY_GPT2),
    **dict.fromkeys(("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "lfm2"), _LLAMA3),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "kormo", "stablelm2", "hunyuan", "solar-open", "grok-2"), _QWEN2),
    "qwen35": _QWEN35,
    **dict.fromkeys(("glm4", "chatglm-bpe", "dbrx", "smaug-bpe"), PreTokenizer((_words(r"\p{L}", r"\p{N}{1,3}"),))),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "joyai-llm"), _DEEPSEEK3),
    "tekken": PreTokenizer((_cased_words("", r"\p{N}"),), ignore_merges=True),
    **dict.fromkeys(("gpt-4o", "llama4", "minimax-m2"), PreTokenizer((_cased_words(f"{_SUFFIXES}?", r"\p{N}{1,3}"),))),
    "default": PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
}
