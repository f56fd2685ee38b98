"""The vectors: 469 fixtures of the package canitoolcall, and those of this repository."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from antiphon_core.jsons import Object
from antiphon_translator.parsing import families

GOLDEN = Path(__file__).parents[2] / "golden" / "tool_calls"
FIXTURES_VARIABLE = "CANITOOLCALL_FIXTURES"

# The family of a fixture's model: the first part that is found in the model's name decides.
_BY_MODEL = {
    "deepseek": {
        "V4.1": "deepseek_v41",
        "V4": "deepseek_v4",
        "V3.2": "deepseek_v32",
        "V3.1": "deepseek_v31",
        "V3": "deepseek_v3",
    },
    "kimi": {"K3": "kimi_k3", "K2": "kimi_k2"},
    "llama": {"Llama-4": "llama4", "Llama-3": "llama3"},
}
_BY_NAME = {
    "qwen3-hermes": "hermes",
    "qwen3-xml": "qwen_coder",
    "gpt-oss": "gpt_oss",
    "granite4": "hermes",
    "nemotron_3": "qwen_coder",
    "cohere_r7b": "cohere",
    "kimi-k2": "kimi_k2",
    "deepseek-r1": "deepseek_v3",
}
# Control tokens that are parts of the markers in the table.
_TOKENS = {"minimax_m3": ("]<]minimax[>[", "<mm:think>", "</mm:think>")}
_TAG = re.compile(r"[<\[][^<\[\s?{]+[>\]]")
# Listed as markers, but ordinary text in the vocabularies.
_NO_TOKENS = ("<function=", "</function>", "<parameter=", "</parameter>")


@dataclass(frozen=True)
class Vector:
    """An output of a model. `ids` are in the vocabulary of `repository`. `expected` is None if no call may be found."""

    id: str
    family: str
    raw: str
    prompt_tail: str
    tools: tuple[Object, ...]
    expected: Object | None
    repository: str = ""
    ids: tuple[int, ...] = ()
    markers: tuple[str, ...] = ()
    source: str = ""

    @property
    def schemas(self) -> dict[str, Object] | None:
        """Returns the parameters by name, in the form for the parser. Without tools, calls are text."""
        functions = [tool.get("function", tool) for tool in self.tools]
        return {function["name"]: function.get("parameters") or {} for function in functions} or None


@cache
def fixtures() -> list[Vector]:
    folder = _fixtures_folder()
    found: list[Vector] = []
    for about in sorted(folder.glob("*/family.json")):
        family = json.loads(about.read_text("utf-8"))
        for path in sorted(about.parent.glob("*.jsonl")):
            found += [_fixture(json.loads(line), family) for line in path.read_text("utf-8").splitlines()]
    return found


def all_vectors() -> list[Vector]:
    return [*fixtures(), *suite("public_suite"), *suite("families")]


@cache
def markers_of() -> Mapping[str, tuple[str, ...]]:
    """Returns the control tokens of each family's vocabularies, for families with fixtures."""
    return {vector.family: vector.markers for vector in fixtures()}


@cache
def known_wrong() -> list[Vector]:
    """Returns outputs that were once read wrongly. A text that is None in `expected` may be anything."""
    return suite("known_wrong")


def _markers(family: str) -> tuple[str, ...]:
    return markers_of().get(family) or _tags_of(family)


def _tags_of(family: str) -> tuple[str, ...]:
    """Lists the possible control tokens of a family without fixtures: the tags in its table."""
    if family in _TOKENS:
        return _TOKENS[family]
    literals = dict.fromkeys(families.load(family).markers())
    return tuple(filter(_TAG.fullmatch, literals))


@cache
def suite(name: str) -> list[Vector]:
    """Returns the vectors of a file in this repository: `public_suite`, `families` or `known_wrong`."""
    content = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    return [
        Vector(
            id=each["id"],
            family=_BY_NAME.get(each["family"], each["family"]),
            raw=each["raw"],
            prompt_tail=each["prompt_tail"],
            tools=tuple(each.get("tools", content.get("tools"))),
            expected=each["expected"],
            markers=_markers(_BY_NAME.get(each["family"], each["family"])),
            source=each.get("source", ""),
        )
        for each in content["vectors"]
    ]


def _fixtures_folder() -> Path:
    if FIXTURES_VARIABLE in os.environ:
        return Path(os.environ[FIXTURES_VARIABLE])
    package = find_spec("canitoolcall")
    if package is None or package.origin is None:
        raise RuntimeError(f"install the package canitoolcall, or name a folder of its fixtures in {FIXTURES_VARIABLE}")
    return Path(package.origin).parent / "_data" / "fixtures"


def _fixture(record: Object, family: Object) -> Vector:
    model = record["models"][0]
    prompts = {each["repo"]: each.get("default_generation_prompt") or "" for each in family["reference_models"]}
    given = record.get("generation_prompt")
    expected = record.get("expected")
    return Vector(
        id=record["id"],
        family=_family(record["family"], model),
        raw=record["raw_output"],
        prompt_tail=given if given is not None else prompts.get(model, ""),
        tools=tuple(record["tools"]),
        expected=None if expected is None else _expected(expected),
        repository=record["tokenizer"]["repo"],
        ids=tuple(record["output_token_ids"]),
        markers=tuple(marker for marker in family["markers"] if marker not in _NO_TOKENS),
    )


def _expected(record: Mapping[str, Any]) -> Object:
    return {"text": record["content"], "reasoning": record["reasoning_content"], "calls": record["tool_calls"]}


def _family(name: str, model: str) -> str:
    for part, family in _BY_MODEL.get(name, {}).items():
        if part in model:
            return family
    return _BY_NAME.get(name, name)
