# ruff: noqa: RUF001 - the corpus is full of characters that look like others
"""The tokenizer made from the packaged GGUF file gives the ids of llama.cpp, and decodes the ids to the text."""

import json
import random
import subprocess
from pathlib import Path

from antiphon_local_triton.server_venv import read_layout
from tests.integration.local.conftest import Chat
from tests.support.triton import server_venv

ORACLE = Path(__file__).with_name("llama_tokenize.py")
TEXTS = [
    *("", " ", "   ", "\n", "\n\n \n", "\r\n\r\n \r", "\t\tx", "   leading\tand trailing   "),
    *("Hello world", "I'm you'll WE'VE it's 'S", "camelCase snake_case SCREAMING-CASE x1y2z3", "a" * 300),
    *("1234567890 12 3 4.5 1,000", "٣٤٥ ⅷ ½ ²", "$$$ ^^^ ~~~ ``` ||| <<<>>> +=", "don’t “quote” … —"),
    *("naïve café Ünïcödé", "a\u0301e\u0308", "\u00a0\u2003\u200b x", "ǅ ŉ ﬁ ß ẞ İ ı", "𝒳𝓎 𐐷", "\ufffd \ufeff"),
    *("😀👩‍👩‍👧👨🏽‍💻🇩🇪❤️‍🔥", "日本語テキスト 中文文本 한국어", "שלום עולם مرحبا", "मानक हिन्दी ไทย ქართული"),
    *("def f(x):\n    return x + 1\n\n\tif True:\n\t\tpass\r\n", '{"a": [1, 2.5e-3, null], "b": "\\u00e9"}'),
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|> <|endoftext|>x<|im_en d|>",
]
ALPHABET = "abc ABC  \n\t.,!?'\"0123456789éßñ日本語한😀👍🏽\u200d\u0301ДЖابת<|>_-/\\{}[]()=+*&^%$#@~`"
RANDOM_TEXTS = 1000


def _corpus() -> list[str]:
    chance = random.Random(20)
    return TEXTS + ["".join(chance.choices(ALPHABET, k=chance.randint(1, 60))) for _ in range(RANDOM_TEXTS)]


def test_ids_equal_those_of_llama_cpp(packaged_gguf: Path, chat: Chat) -> None:
    texts = _corpus()
    task = json.dumps({"gguf": str(packaged_gguf), "texts": texts})
    python = read_layout(server_venv()).venv / "bin" / "python"
    said = subprocess.run([python, ORACLE], input=task, capture_output=True, encoding="utf-8", check=True)
    for text, expected in zip(texts, json.loads(said.stdout), strict=True):
        assert chat.encode(text) == expected, repr(text)
        assert chat.decode(expected) == text
