"""Reads the files of a Hugging Face model directory that are needed to serve the model.

    tokenizer.json           the vocabulary
    tokenizer_config.json    bos_token, eos_token, ..., and a chat_template
    chat_template.jinja      the chat template of newer models; wins over the one in tokenizer_config.json
    generation_config.json   eos_token_id (one or several) and the sampling the model was tuned for
    config.json              the context length

Only tokenizer.json is required. SettingsError names the file that is missing or wrong.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon_core.config import SettingsError
from antiphon_core.jsons import Object, kind
from antiphon_translator.tokenizer.tokens import ModelTokenizer

# Members of a generation_config.json; each is a member of generation.Sampling.
_SAMPLING_DEFAULTS: Mapping[str, tuple[type, ...]] = {
    "temperature": (int, float),
    "top_p": (int, float),
    "top_k": (int,),
    "repetition_penalty": (int, float),
}
# With these kinds of RoPE scaling max_position_embeddings may be the unscaled length; with others it is the scaled one.
_SCALED_FROM_ORIGINAL = ("yarn",)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The facts of one model directory. `stop_ids` has the end-of-turn id of the tokenizer first. `added_beginning` is
    the text that the tokenizer of Hugging Face puts before a prompt, such as a BOS token."""

    tokenizer: ModelTokenizer
    chat_template: str | None
    special_tokens: Mapping[str, str]
    stop_ids: tuple[int, ...]
    sampling_defaults: Mapping[str, float | int]
    context_length: int | None
    added_beginning: str = ""


def read(directory: Path) -> ModelFacts:
    """Reads a model directory. SettingsError: tokenizer.json is missing, or a file cannot be read."""
    with _reading(directory / "tokenizer.json") as path:
        tokenizer = ModelTokenizer.load(path)
    with _reading(directory / "chat_template.jinja") as path:
        chat_template = path.read_text("utf-8") if path.exists() else None
    with _reading(directory / "tokenizer_config.json") as path:
        tokenizer_config = _object(path)
        special_tokens = _special_tokens(tokenizer_config)
        added_beginning = "" if tokenizer_config.get("add_bos_token") is False else tokenizer.added_beginning
        if chat_template is None:
            chat_template = _chat_template(tokenizer_config)
    with _reading(directory / "generation_config.json") as path:
        generation_config = _object(path)
        stop_ids = _stop_ids(tokenizer, special_tokens.get("eos_token"), generation_config.get("eos_token_id"))
        sampling_defaults = {
            name: value
            for name, kinds in _SAMPLING_DEFAULTS.items()
            if (value := _check_member(name, generation_config.get(name), *kinds)) is not None
        }
    with _reading(directory / "config.json") as path:
        context_length = _context_length(_object(path))
    return ModelFacts(
        tokenizer, chat_template, special_tokens, stop_ids, sampling_defaults, context_length, added_beginning
    )


@contextmanager
def _reading(path: Path) -> Iterator[Path]:
    """Raises SettingsError with the file's name and a remedy for an error of reading in the block."""
    try:
        yield path
    except (OSError, ValueError, OverflowError, RecursionError) as error:
        raise SettingsError(f"Cannot read {path}: {error}. Correct the file or download it again.") from error


def _object(path: Path) -> Object:
    """The object in a JSON file; empty when there is no such file. ValueError: the file holds something else."""
    # Not orjson: Hugging Face writes Infinity and NaN, such as `time_step_limit` in config.json of Nemotron-H.
    content = json.loads(path.read_bytes(), parse_constant=lambda _: None) if path.exists() else {}
    if not isinstance(content, dict):
        raise ValueError("it must hold a JSON object")
    return content


def _check_member(name: str, value: Any, *kinds: type) -> Any:
    """The value of a member that may be null. ValueError: it is of another type than these, or a number too large."""
    if value in (math.inf, -math.inf):
        raise ValueError(f"'{name}' is too large a number")
    if value is None or type(value) in kinds:  # isinstance takes a boolean for an integer
        return value
    raise ValueError(f"'{name}' must be {' or '.join(kind(each()) for each in kinds)}, but is {kind(value)}")


def _special_tokens(tokenizer_config: Object) -> dict[str, str]:
    """`bos_token` and the like; each is text, or an object with the text in `content`. Switches such as `add_bos_token`
    are left out."""
    for name in ("bos_token", "eos_token"):
        _check_member(name, tokenizer_config.get(name), str, dict)
    named = {name: value for name, value in tokenizer_config.items() if name.endswith("_token")}
    texts = {
        name: _check_member("content", value.get("content"), str) if isinstance(value, dict) else value
        for name, value in named.items()
    }
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
    ids = [own, *(_check_member("eos_token_id", each, int) for each in listed)]
    return tuple(dict.fromkeys(found for found in ids if found is not None))


def _context_length(config: Object) -> int | None:
    """The context length in tokens, of prompt and output together; None where the config has none."""
    text_config = _check_member("text_config", config.get("text_config"), dict) or config  # of vision models
    length: int | None = _check_member("max_position_embeddings", text_config.get("max_position_embeddings"), int)
    scaling = _check_member("rope_scaling", text_config.get("rope_scaling"), dict) or {}
    if length is None or scaling.get("rope_type", scaling.get("type")) not in _SCALED_FROM_ORIGINAL:
        return length
    name = "original_max_position_embeddings"
    original = _check_member(name, scaling.get(name), int, float) or length
    return int(original * (_check_member("factor", scaling.get("factor"), int, float) or 1))
