"""An ensemble like TensorRT-LLM's: preprocessing, tensorrt_llm, postprocessing, run by Triton's own scheduler.

The models before and after `tensorrt_llm` are those of `triton_models/words.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from antiphon_local_triton.repository import MODEL_NAME
from antiphon_tokens.repository import CONFIG_FILE
from tests.support import text_models

CODE = Path(__file__).with_name("triton_models") / "words.py"
SIGNATURE = "ensemble"
OWN_NAMES = {"stream": "streaming", "top_k": "runtime_top_k", "top_p": "runtime_top_p"}
"""The names of `tensorrt_llm` for inputs of the ensemble; all other inputs have one name in both."""

_BEFORE = """
name: "{name}"
backend: "python"
max_batch_size: 64
input [
  {{ name: "QUERY"               data_type: TYPE_STRING  dims: [ 1 ] }},
  {{ name: "REQUEST_OUTPUT_LEN"  data_type: TYPE_INT32   dims: [ 1 ] }},
  {{ name: "STOP_WORDS_DICT"     data_type: TYPE_STRING  dims: [ -1 ]  optional: true }},
  {{ name: "END_ID"              data_type: TYPE_INT32   dims: [ 1 ]   optional: true }}
]
output [
  {{ name: "INPUT_ID"            data_type: TYPE_INT32   dims: [ -1 ] }},
  {{ name: "REQUEST_INPUT_LEN"   data_type: TYPE_INT32   dims: [ 1 ] }},
  {{ name: "REQUEST_OUTPUT_LEN"  data_type: TYPE_INT32   dims: [ 1 ] }},
  {{ name: "OUT_END_ID"          data_type: TYPE_INT32   dims: [ 1 ] }}
]
"""
_BEHIND = """
name: "{name}"
backend: "python"
max_batch_size: 64
input [
  {{ name: "TOKENS_BATCH"        data_type: TYPE_INT32   dims: [ -1, -1 ] }},
  {{ name: "SEQUENCE_LENGTH"     data_type: TYPE_INT32   dims: [ -1 ] }}
]
output [
  {{ name: "OUTPUT"              data_type: TYPE_STRING  dims: [ -1 ] }}
]
"""


def write(repository: Path, name: str) -> str:
    """Writes the ensemble `name` without the model in its middle. Returns the name of that model."""
    before, middle, behind = f"{name}_preprocessing", f"{name}_{MODEL_NAME}", f"{name}_postprocessing"
    for step, config in ((before, _BEFORE), (behind, _BEHIND)):
        _folder(repository, step, config.format(name=step))
        (repository / step / "1" / "model.py").write_bytes(CODE.read_bytes())
    packaged = text_models.config_of(SIGNATURE)
    signature = packaged[packaged.index("max_batch_size") : packaged.index("instance_group")]
    signature = re.sub(r"model_transaction_policy.*\n", "", signature)  # an ensemble has the policy of its steps
    steps = ",\n".join(
        _steps(before, middle, behind, inputs=_names(signature, "input"), outputs=_names(signature, "output"))
    )
    config = f'name: "{name}"\nplatform: "ensemble"\n{signature}\nensemble_scheduling {{ step [\n{steps}\n] }}\n'
    _folder(repository, name, config)
    return middle


def _names(signature: str, kind: str) -> list[str]:
    (block,) = re.findall(rf"^{kind} \[(.*?)^\]", signature, re.MULTILINE | re.DOTALL)
    return re.findall(r'name: "(\w+)"', block)


def _steps(before: str, middle: str, behind: str, *, inputs: list[str], outputs: list[str]) -> list[str]:
    to_ids = {
        "QUERY": "text_input",
        "REQUEST_OUTPUT_LEN": "max_tokens",
        "STOP_WORDS_DICT": "stop_words",
        "END_ID": "end_id",
    }
    ids = {key: f"_{key}" for key in ("INPUT_ID", "REQUEST_INPUT_LEN", "REQUEST_OUTPUT_LEN", "OUT_END_ID")}
    names = ("input_ids", "input_lengths", "request_output_len", "end_id")
    asked = dict(zip(names, ids.values(), strict=True))
    asked |= {OWN_NAMES.get(name, name): name for name in inputs if name not in to_ids.values()}
    answered = {"output_ids": "_IDS", "sequence_length": "_LENGTH"}
    answered |= {name: name for name in outputs if name != "text_output"}
    return [
        _step(before, to_ids, ids),
        _step(middle, asked, answered),
        _step(behind, {"TOKENS_BATCH": "_IDS", "SEQUENCE_LENGTH": "_LENGTH"}, {"OUTPUT": "text_output"}),
    ]


def _step(model: str, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> str:
    maps = [f'input_map {{ key: "{key}" value: "{value}" }}' for key, value in inputs.items()]
    maps += [f'output_map {{ key: "{key}" value: "{value}" }}' for key, value in outputs.items()]
    return f'{{ model_name: "{model}" model_version: -1 {" ".join(maps)} }}'


def _folder(repository: Path, name: str, config: str) -> None:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / CONFIG_FILE).write_text(config, "utf-8")
