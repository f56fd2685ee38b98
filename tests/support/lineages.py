"""Models of several families, and turns of theirs that pass lineages on, as the edge does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random

from tokenizers import AddedToken, Regex, Tokenizer, pre_tokenizers

from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object, dumps, loads
from antiphon_local_triton.pretokenizers import PRE_TOKENIZERS
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import EngineFacts, FinishReason, GenerationRequest, TokenChunk
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.parsing import families
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.prompt.prompt import ChatTemplate, PromptEncoder
from antiphon_translator.templates.harmony import HarmonyTemplate
from antiphon_translator.templates.jinja import JinjaTemplate
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from tests.support.pipelines import pipeline_of
from tests.support.prompts import ids_in
from tests.support.segmentations import split_some
from tests.support.served_models import FILES, message, model, tokenizer, turn
from tests.support.templated_system import source_of

WEATHER: Object = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}


@dataclass(frozen=True)
class ModelKind:
    """A family, how its tokenizer splits words, its control tokens, and what it writes around an answer."""

    family: str
    rule: str
    control: Sequence[str]
    end: str
    template: str = ""
    answer: str = "{}"
    call: str = ""
    has_tools: bool = True

    def load(self, *, cache_bytes: int = 2**22) -> ServedModel:
        """Returns the model with an empty prompt cache, as another translator has it."""
        made = _tokenizer(self)
        end = made.token_id(self.end)
        assert end is not None
        return model(
            prompt=PromptEncoder(_template(self), made, cache_bytes=cache_bytes),
            tokenizer=made,
            stop_ids=(end,),
            syntax=TokenSyntax(families.load(self.family), made),
            context_length=100_000,
        )


MODELS = {
    "smollm2": ModelKind("plain", "", (), "<|im_end|>"),
    "qwen3": ModelKind(
        "hermes",
        "qwen2",
        ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
        "<|im_end|>",
        "Qwen-Qwen3-0.6B",
        "{}",
        '<tool_call>\n{{"name": "get_weather", "arguments": {{"city": "{}"}}}}\n</tool_call>',
    ),
    "qwen3 stripped": ModelKind(
        "hermes",
        "qwen2",
        ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
        "<|im_end|>",
        "Qwen-Qwen3-0.6B",
        "<think>\nLet me see.\n</think>\n\n{}",
        "<think>\nLet me see.\n</think>\n\n"
        '<tool_call>\n{{"name": "get_weather", "arguments": {{"city": "{}"}}}}\n</tool_call>',
    ),
    "gpt-oss": ModelKind(
        "gpt_oss",
        "llama3",
        ("<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|return|>", "<|call|>", "<|constrain|>"),
        "<|return|>",
        answer="<|channel|>final<|message|>{}",
    ),
    "mistral": ModelKind(
        "mistral",
        "tekken",
        ("<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CALLS]"),
        "</s>",
        "Mistral-Small",
        has_tools=False,  # its template writes them before the last message
    ),
    "glm": ModelKind(
        "glm",
        "deepseek-v3",
        ("[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>", "<think>", "</think>"),
        "<|user|>",
        "GLM-4.6",
        "\n<think></think>\n{}",
    ),
    "kimi": ModelKind(
        "kimi_k2",
        "qwen2",
        ("<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>"),
        "<|im_end|>",
        "moonshotai-Kimi-K2",
    ),
}


@cache
def _tokenizer(kind: ModelKind) -> ModelTokenizer:
    """SmolLM2's vocabulary with the family's control tokens, which splits words by its rule."""
    made = Tokenizer.from_str(tokenizer().library.to_str())
    if kind.rule:
        splits = [pre_tokenizers.Split(Regex(each), "isolated") for each in PRE_TOKENIZERS[kind.rule].patterns]
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        made.pre_tokenizer = pre_tokenizers.Sequence([*splits, byte_level])
    made.add_tokens([AddedToken(name, normalized=False) for name in kind.control])
    return ModelTokenizer(made)


def _template(kind: ModelKind) -> ChatTemplate:
    if kind.family == "gpt_oss":
        return HarmonyTemplate()
    source = source_of(kind.template) if kind.template else (FILES / "chat_template.jinja").read_text("utf-8")
    return JinjaTemplate(source, special_tokens={"bos_token": "<s>", "eos_token": "</s>"})


@dataclass
class Chat:
    """A chat, and what engines have computed for it. `engine` are the ids of the last prompt and its output."""

    kind: ModelKind
    chance: Random
    share: float = 0.3
    history: list[Object] = field(default_factory=list)
    lineages: list[bytes] = field(default_factory=list)
    engine: list[int] = field(default_factory=list)
    request: GenerationRequest | None = None

    def say(self, served: ServedModel, text: str, answer: str, *, cut: int = 0) -> list[int]:
        """Runs a turn in which the model writes `answer` in ids of its own. Returns the ids of the prompt. With `cut`
        the length limit ends the answer before its last `cut` ids."""
        said = self._input(text)
        given = turn(history=self.history, tools=[WEATHER] if self.kind.has_tools else [])
        given = replace(given, input=dumps(said), lineages=tuple(self.lineages))
        made = pipeline_of(served, given, controls=ALL_CONTROLS, ids=SequentialIds())
        _, self.request = made.start()
        prompt = list(ids_in(self.request))
        written = split_some(served.tokenizer, served.tokenizer.encode(answer), self.chance, self.share)
        written = written[: len(written) - cut]
        made.receive([TokenChunk(written, placement="here")])
        made.receive(
            [TokenChunk(finish=FinishReason.LENGTH if cut else FinishReason.STOP, facts=EngineFacts(cached_tokens=3))]
        )
        final = made.finish(completed_at=9)[-1].final
        assert final is not None
        self.history += [*said, *loads(final.output_items)]
        self.lineages.append(final.lineage)
        self.engine = [*prompt, *written]
        return prompt

    def _input(self, text: str) -> list[Object]:
        """The text as what the user says, or as the result of the last calls."""
        calls = [item["call_id"] for item in self.history[-2:] if item["type"] == "function_call"]
        return [
            {"type": "function_call_output", "id": f"fco_{call_id}", "call_id": call_id, "output": text}
            for call_id in calls
        ] or [message("user", text)]
