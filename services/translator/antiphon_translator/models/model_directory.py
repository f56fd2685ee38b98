"""Reads the files of a Hugging Face model directory that are needed to serve the model.

    tokenizer.json           the vocabulary
    tokenizer_config.json    bos_token, eos_token, ..., and a chat_template
    chat_template.jinja      the chat template of newer models; wins over the one in tokenizer_config.json
    generation_config.json   eos_token_id (one or several) and the sampling the model was tuned for
    config.json              the context length

Only tokenizer.json is required. SettingsError names the file that is missing or wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
    """Reads a model directory. SettingsError: tokenizer.json is missing, or a file cannot be read."""
    with _reading(directory / "tokenizer.json") as path:
        tokenizer = ModelTokenizer.load(path)
    with _reading(directory / "chat_template.jinja") as path:
        chat_template = path.read_text("utf-8") if path.exists() else None
    with _reading(directory / "tokenizer_config.json") as path:
        tokenizer_config = _object(path)
        special_tokens = _special_tokens(tokenizer_config)
        if chat_template is None:
            chat_template = _chat_template(tokenizer_config)
    with _reading(directory / "generation_config.json") as path:
        generation_config = _object(path)
        stop_ids = _stop_ids(tokenizer, special_tokens.get("eos_token"), generation_config.get("eos_token_id"))
        sampling_defaults = {
            name: value for name in _SAMPLING_DEFAULTS if (value := generation_config.get(name)) is not None
        }
    with _reading(directory / "config.json") as path:
        context_length = _context_length(_object(path))
    return ModelFacts(tokenizer, chat_template, special_tokens, stop_ids, sampling_defaults, context_length)


@contextmanager
def _reading(path: Path) -> Iterator[Path]:
    """Raises SettingsError with the file's name and a remedy for an OSError or a ValueError in the block."""
    try:
        yield path
    except (OSError, ValueError) as error:
        raise SettingsError(f"Cannot read {path}: {error}. Correct the file or download it again.") from error


def _object(path: Path) -> Object:
    """The object in a JSON file; empty when there is no such file. ValueError: the file holds something else."""
    content = loads(path.read_bytes()) if path.exists() else {}
    if not isinstance(content, dict):
        raise ValueError("it must hold a JSON object")
    return content


def _special_tokens(tokenizer_config: Object) -> dict[str, str]:
    """`bos_token` and the like; each is text, or an object with the text in `content`."""
    named = {name: value for name, value in tokenizer_config.items() if name.endswith("_token")}
    texts = {name: value.get("content") if isinstance(value, dict) else value for name, value in named.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _chat_template(tokenizer_config: Object) -> str | None:
    """The chat template; where there are several, the one named "default". ValueError: it is neither text nor a list of
    named texts."""
    given = tokenizer_config.get("chat_template")
    if given is None or isinstance(given, str):
        return given
    templates: dict[str, str] = {}
    for entry in given if isinstance(given, list) else [given]:
        match entry:
            case {"name": str(name), "template": str(template)}:
                templates[name] = template
            case _:
                raise ValueError("'chat_template' must be text, or a list of objects with texts 'name' and 'template'")
    return templates.get("default")


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
