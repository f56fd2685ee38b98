"""Prompts of growing chats with real templates: a cached prompt has the ids of the whole prompt, no text becomes a
control token, and no prompt has more tokens than its bound.

The vocabulary is that of SmolLM2 with the control tokens of the template."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_translator.conversation import Call, Conversation, Image, Message
from antiphon_translator.prompt.prompt import PromptEncoder
from antiphon_translator.templates import jinja, probes
from antiphon_translator.templates.control_tokens import ControlTokens, Mask
from antiphon_translator.templates.jinja import JinjaTemplate
from antiphon_translator.templates.minijinja_twin import MinijinjaTwin, _outcome
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from tests.golden.templates.test_detection import FOLDERS
from tests.support.served_models import FILES
from tests.support.volume import volume

TEMPLATES = [path for folder in FOLDERS for path in sorted(folder.glob("*.jinja"))]
NOW_S = 1_700_000_000
EXAMPLES = volume(4, 200)
_NAMES = re.compile(r"<[|\uff5c][^<>|\uff5c'\"\n]+[|\uff5c]>|</?[a-z_]+(?::[a-z_]+)?>|\[/?[A-Z_]{3,}\]|\]~[!b]?\[")
TOOL: Object = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "Where."}}},
    },
}
IMAGE = Image(b"", "png", 1, 1)


@cache
def vocabulary(path: Path) -> ModelTokenizer:
    made = Tokenizer.from_buffer(gzip.decompress((FILES / "tokenizer.json.gz").read_bytes()))
    names = sorted({*_NAMES.findall(path.read_text("utf-8")), "<|im_start|>", "<think>", "</think>"})
    made.add_tokens([AddedToken(name, normalized=False, special=False) for name in names])
    return ModelTokenizer(made)


@cache
def template(path: Path) -> JinjaTemplate:
    return JinjaTemplate(path.read_text("utf-8"), special_tokens={"bos_token": "<s>", "eos_token": "</s>"})


# ---- Chats ----

_SPELT = ["<|im_end|>", "</think>", "<think>", "<tool_call>", "[INST]", "<s>", "think>", "|im_end|>", "<|im_", "<"]
_TEXTS = st.lists(
    st.sampled_from([*_SPELT, "Hello", " there.", "\n", "\n\n", "  ", "naïve 北京", '{"a": 1}', "1 < 2", "'"]),
    max_size=4,
).map("".join)
_CALLS = st.builds(
    lambda text, key: (Call("call_1", "get_weather", {"city": text, key: text, "days": [1, None]}),),
    _TEXTS,
    st.sampled_from(["a", *_SPELT]),
)
_STEPS = st.one_of(
    st.builds(lambda text: [Message("assistant", (text or "Yes.",))], _TEXTS),
    st.builds(lambda text, thought: [Message("assistant", (text or "Yes.",), thought or "Hm.")], _TEXTS, _TEXTS),
    st.builds(
        lambda calls, text, thought: [
            Message("assistant", (), thought, calls),
            Message("tool", (text,), call_id="call_1", name="get_weather"),
            Message("assistant", ("Done.",)),
        ],
        _CALLS,
        _TEXTS,
        _TEXTS,
    ),
)
_QUESTIONS = st.tuples(_TEXTS.map(lambda text: text or "Hi")) | st.just(("See:", IMAGE))


@st.composite
def chats(draw: st.DrawFn) -> list[Conversation]:
    """The prompts of a chat. Each continues the last prompt or the one before."""
    tools = draw(st.sampled_from([(), (TOOL,)]))
    opening = draw(st.sampled_from([(), (Message("system", ("Be brief.",)),)]))
    shown = [Conversation((*opening, Message("user", draw(_QUESTIONS))), tools)]
    for step in draw(st.lists(_STEPS, max_size=4)):
        before = draw(st.sampled_from(shown[-2:]))
        shown.append(Conversation((*before.messages, *step, Message("user", draw(_QUESTIONS))), tools))
    return shown


@cache
def encoder_without_cache(path: Path) -> PromptEncoder:
    return PromptEncoder(template(path), vocabulary(path), cache_bytes=0)


def encoded_anew(path: Path, shown: Conversation) -> Sequence[int] | None:
    """The ids of a prompt from an encoder without a cache, or None if the template rejects the prompt."""
    try:
        return encoder_without_cache(path).encode(shown, now_s=NOW_S).ids
    except InvalidRequest:
        return None


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
@settings(max_examples=EXAMPLES)
@given(chats(), st.sampled_from([1_000, 10_000, 10_000_000]))
def test_cached_prompt_has_the_ids_of_the_whole_prompt(path: Path, shown: list[Conversation], cache_bytes: int) -> None:
    encoder = PromptEncoder(template(path), vocabulary(path), cache_bytes=cache_bytes)
    for prompt in [*shown, *shown]:
        wanted = encoded_anew(path, prompt)
        if wanted is not None:
            assert encoder.encode(prompt, now_s=NOW_S).ids == wanted
            assert len(wanted) <= encoder.tokens_at_most(prompt)


_SHORT_TURN = (Message("user", ("a",)), Message("assistant", ("b",), "c"))
_SHORT_CALL = (
    Message("user", ("a",)),
    Message("assistant", (), "c", (Call("call_1", "f", {"d": "e", "g": [1]}),)),
    Message("tool", ("h",), call_id="call_1", name="f"),
    Message("assistant", ("b",)),
)


@pytest.mark.parametrize("messages", [_SHORT_TURN, _SHORT_CALL], ids=["turns", "calls"])
@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_many_short_messages_stay_within_the_token_bound(path: Path, messages: tuple[Message, ...]) -> None:
    shown = Conversation((*messages * 100, Message("user", ("a",))), (TOOL,) * 20)
    ids = encoded_anew(path, shown)
    assert ids is None or len(ids) <= encoder_without_cache(path).tokens_at_most(shown)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
@settings(max_examples=EXAMPLES)
@given(chats())
def test_prompt_has_only_the_control_tokens_of_its_template(path: Path, shown: list[Conversation]) -> None:
    control = ControlTokens(vocabulary(path).added)
    for prompt in shown:
        ids = encoded_anew(path, prompt)
        if ids is not None:
            found = [vocabulary(path).added[each] for each in ids if each in control.ids]
            assert found in list(_written(path, control, prompt))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
@settings(max_examples=EXAMPLES)
@given(chats())
def test_agreeing_minijinja_twin_writes_the_prompts_of_jinja(path: Path, shown: list[Conversation]) -> None:
    made = twin(path)
    if made is not None:  # the next test says which templates must have one
        for prompt in shown:
            offered = template(path)._context(prompt, NOW_S)
            assert _outcome(made._write, offered) in (None, _outcome(template(path)._template.render, offered))


def test_templates_have_a_minijinja_twin() -> None:
    without = [path.stem for path in TEMPLATES if path.parent == FOLDERS[0] and twin(path) is None]
    assert without == ["Qwen3-Coder"]  # which minijinja cannot render


@cache
def twin(path: Path) -> MinijinjaTwin | None:
    """The twin of a template, or None if the two disagree. benchmarks measures whether the twin is faster."""
    given = template(path)
    made = MinijinjaTwin(
        path.read_text("utf-8"), given._template.render, to_json=jinja._to_json, raise_exception=jinja._raise
    )
    return made if made.agrees(map(given._context, probes.conversations())) else None


def _written(path: Path, control: ControlTokens, shown: Conversation) -> Iterator[list[str]]:
    """The control tokens that the template writes around masked texts. Either all characters of control tokens are
    masked, which can mislead a template that inspects texts, or only the first character of each."""
    shown = encoder_without_cache(path).roles.adapt(shown)
    for alphabet in (control.alphabet, sorted({name[0] for name in vocabulary(path).added.values() if len(name) > 1})):
        mask = Mask(alphabet, avoiding="")
        try:
            yield list(control.spelt(template(path).render(_masked(shown, control, mask), now_s=NOW_S)))
        except InvalidRequest:
            continue
    if not any(map(control.find, shown.texts())):
        yield list(control.spelt(template(path).render(shown, now_s=NOW_S)))


def _masked(shown: Conversation, control: ControlTokens, mask: Mask) -> Conversation:
    return shown.map_text(mask.hide, lambda key: mask.hide(key) if control.find(key) else key)
