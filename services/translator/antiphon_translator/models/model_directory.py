"""Reads the files of a Hugging Face model directory that are needed to serve the model.

    tokenizer.json           the vocabulary
    tokenizer_config.json    bos_token, eos_token, ..., and a chat_template
    chat_template.jinja      the chat template of newer models; wins over the one in tokenizer_config.json
    generation_config.json   eos_token_id (one or several) and the sampling the model was tuned for
    config.json              the context length

Only tokenizer.json is required. SettingsError says in one line what is missing or wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon_core.config import SettingsError
from antiphon_core.jsons import Object, loads
from antiphon_translator.tokenizer.tokens import ModelTokenizer

# Members of a generation_config.json; each is a member of generation.Sampling.
_SAMPLING_DEFAULTS = ("temperature", "top_p", "top_k", "repetition_penalty")
# With these kinds of RoPE scaling max_position_embeddings may be the unscaled length; with others it is the scaled one.
_SCALED_FROM_ORIGINAL = ("yarn",)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The facts of one model directory. `stop_ids` has the end-of-turn id of the tokenizer first."""

    tokenizer: ModelTokenizer
    chat_template: str | None
    special_tokens: Mapping[str, str]
    stop_ids: tuple[int, ...]
    sampling_defaults: Mapping[str, float | int]
    context_length: int | None


def read(directory: Path) -> ModelFacts:
    """Reads a model directory. SettingsError: the tokenizer or a JSON file cannot be read."""
    try:
        tokenizer = ModelTokenizer.load(directory / "tokenizer.json")
    except (OSError, ValueError) as error:
        raise SettingsError(f"Cannot load the model directory {directory}: {error}") from error
    tokenizer_config = _read_json(directory / "tokenizer_config.json")
    generation_config = _read_json(directory / "generation_config.json")
    special_tokens = _special_tokens(tokenizer_config)
    return ModelFacts(
        tokenizer=tokenizer,
        chat_template=_chat_template(directory, tokenizer_config),
        special_tokens=special_tokens,
        stop_ids=_stop_ids(tokenizer, special_tokens.get("eos_token"), generation_config.get("eos_token_id")),
        sampling_defaults={
            name: value for name in _SAMPLING_DEFAULTS if (value := generation_config.get(name)) is not None
        },
        context_length=_context_length(_read_json(directory / "config.json")),
    )


def _read_json(path: Path) -> Object:
    """The object in a file; empty when there is no such file."""
    if not path.exists():
        return {}
    try:
        content = loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SettingsError(f"Cannot read {path}: {error}") from error
    if not isinstance(content, dict):
        raise SettingsError(f"{path} must hold a JSON object.")
    return content


def _special_tokens(tokenizer_config: Object) -> dict[str, str]:
    """`bos_token` and the like; each is text, or an object with the text in `content`."""
    named = {name: value for name, value in tokenizer_config.items() if name.endswith("_token")}
    texts = {name: value.get("content") if isinstance(value, dict) else value for name, value in named.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _chat_template(directory: Path, tokenizer_config: Object) -> str | None:
    own = directory / "chat_template.jinja"
    if own.exists():
        return own.read_text("utf-8")
    given = tokenizer_config.get("chat_template")
    if isinstance(given, list):  # several, by name
        by_name = {entry["name"]: entry["template"] for entry in given}
        given = by_name.get("default")
    return given


def _stop_ids(tokenizer: ModelTokenizer, eos_token: str | None, eos_token_id: Any) -> tuple[int, ...]:
    """All ids that end a turn, without repetition, the tokenizer's own first."""
    own = tokenizer.token_id(eos_token) if eos_token else None
    listed = eos_token_id if isinstance(eos_token_id, list) else [eos_token_id]
    return tuple(dict.fromkeys(found for found in [own, *listed] if isinstance(found, int)))


def _context_length(config: Object) -> int | None:
    """The context length in tokens, of prompt and output together; None where the config has none."""
    text_config = config.get("text_config") or config  # vision models have it one level down
    length = text_config.get("max_position_embeddings")
    if not isinstance(length, int):
        return None
    scaling = text_config.get("rope_scaling") or {}
    if scaling.get("rope_type", scaling.get("type")) in _SCALED_FROM_ORIGINAL:
        original = scaling.get("original_max_position_embeddings", length)
        return int(original * scaling.get("factor", 1))
    return length
