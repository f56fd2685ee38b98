"""Turns a GGUF file into a model directory in Hugging Face's layout, so that all models are loaded in the same way.

The directory holds tokenizer.json, tokenizer_config.json (with the chat template), generation_config.json (every id
that ends a turn) and config.json (context length, vocabulary size, architecture). A stamp file records the GGUF file
and the options that it was made of, and it is made again only if they change. It appears complete or not at all.
"""

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from antiphon_local_triton.errors import LocalModelError
from antiphon_local_triton.gguf_file import Value, read_metadata
from antiphon_local_triton.gguf_tokenizer import build_tokenizer

FORMAT_VERSION = 1
"""Increase it when a release makes another directory of the same GGUF file."""
STAMP_FILE = "made-from.json"
CHATML_TEMPLATE = Path(__file__).with_name("chatml.jinja")
"""The chat template for the packaged model. The model's own template adds a system prompt that confuses this small
model."""

# The tokens that end a turn, from llama.cpp's list: many files name only one such token in their metadata.
_ENDS_OF_TURN = frozenset(
    "<|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn> <turn|> <|endoftext|> "
    "<|eom_id|> <EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> <\uff5cend▁of▁sentence\uff5c> [e~[".split()
)
_HARMONY_ENDS = frozenset(("<|return|>", "<|call|>"))


def build_model_directory(
    gguf: Path, out: Path, *, chat_template: str | None = None, sampling: Mapping[str, float] | None = None
) -> Path:
    """Makes the directory `out` for a GGUF file, unless it is there already, and returns it.

    `chat_template` (jinja text) replaces the one in the file; `sampling` holds the model's recommended values, such as
    temperature and top_p, which GGUF files do not carry. Takes up to some seconds for a large vocabulary. Raises
    LocalModelError when the file cannot be read, has an unknown tokenizer, or has no template and none is given.
    """
    stamp = _stamp(gguf, chat_template, sampling or {})
    if _read_stamp(out) == stamp:
        return out
    metadata = read_metadata(gguf)
    template = chat_template if chat_template is not None else metadata.get("tokenizer.chat_template")
    if not isinstance(template, str):
        raise LocalModelError(
            f"{gguf} has no chat template, as models that were not trained to chat. Choose an instruct or chat model."
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
        fresh = Path(scratch) / "fresh"
        fresh.mkdir(mode=0o755)
        build_tokenizer(metadata).save(str(fresh / "tokenizer.json"))
        for name, content in _config_files(metadata, template, sampling or {}).items():
            _write_json(fresh / name, content)
        _write_json(fresh / STAMP_FILE, stamp)
        _put(fresh, out, Path(scratch) / "old", stamp)
    return out


def _put(fresh: Path, out: Path, old: Path, stamp: object) -> None:
    """Puts a directory into its place, unless another process has put the same one there meanwhile."""
    try:
        if _read_stamp(out) != stamp:
            if out.exists():
                out.replace(old)
            fresh.replace(out)
    except OSError:
        if _read_stamp(out) != stamp:
            raise


def _config_files(
    metadata: Mapping[str, Value], template: str, sampling: Mapping[str, float]
) -> dict[str, Mapping[str, object]]:
    tokens = _tokens(metadata)
    family = str(metadata.get("general.architecture", ""))
    special = {
        f"{name}_token": tokens[number]
        for name in ("bos", "eos", "pad", "unk")
        if (number := _token_id(metadata, _KEYS[name], len(tokens))) is not None
    }
    bos_id, pad_id = (_token_id(metadata, _KEYS[name], len(tokens)) for name in ("bos", "pad"))
    turn_ends = ends_of_turn(metadata)
    return {
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            "add_bos_token": bool(metadata.get("tokenizer.ggml.add_bos_token", False)),
            "model_max_length": metadata.get(f"{family}.context_length"),
            **special,
            "chat_template": template,
        },
        "generation_config.json": {
            "bos_token_id": bos_id,
            "eos_token_id": turn_ends,
            "pad_token_id": pad_id,
            **({"do_sample": True, **sampling} if sampling else {}),
        },
        "config.json": {
            "model_type": family,
            "max_position_embeddings": metadata.get(f"{family}.context_length"),
            "vocab_size": len(tokens),
            "bos_token_id": bos_id,
            "eos_token_id": turn_ends,
        },
    }


_KEYS = {
    "bos": "tokenizer.ggml.bos_token_id",
    "eos": "tokenizer.ggml.eos_token_id",
    "eot": "tokenizer.ggml.eot_token_id",
    "eom": "tokenizer.ggml.eom_token_id",
    "pad": "tokenizer.ggml.padding_token_id",
    "unk": "tokenizer.ggml.unknown_token_id",
}


def ends_of_turn(metadata: Mapping[str, Value]) -> list[int]:
    """The ids that end a turn: the file's end-of-sequence id first, then all others, ascending."""
    tokens = _tokens(metadata)
    named = [_token_id(metadata, _KEYS[name], len(tokens)) for name in ("eos", "eot", "eom")]
    texts = set(tokens) & _ENDS_OF_TURN
    if texts >= _HARMONY_ENDS:  # in harmony <|end|> ends a message, not the turn
        texts.discard("<|end|>")
    by_text = sorted(number for number, text in enumerate(tokens) if text in texts)
    return list(dict.fromkeys(number for number in (*named, *by_text) if number is not None))


def _tokens(metadata: Mapping[str, Value]) -> Sequence[str]:
    tokens = metadata.get("tokenizer.ggml.tokens")
    return [str(token) for token in tokens] if isinstance(tokens, list) else []


def _token_id(metadata: Mapping[str, Value], key: str, vocabulary_size: int) -> int | None:
    number = metadata.get(key)
    return number if isinstance(number, int) and 0 <= number < vocabulary_size else None


def _stamp(gguf: Path, chat_template: str | None, sampling: Mapping[str, float]) -> dict[str, object]:
    try:
        status = gguf.stat()
    except OSError as error:
        raise LocalModelError(f"The GGUF file {gguf} cannot be read: {error.strerror}.") from error
    return {
        "format_version": FORMAT_VERSION,
        "path": str(gguf.resolve()),
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "sampling": dict(sampling),
        "chat_template": None if chat_template is None else hashlib.sha256(chat_template.encode()).hexdigest(),
    }


def _read_stamp(directory: Path) -> object:
    try:
        return json.loads((directory / STAMP_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", "utf-8")
