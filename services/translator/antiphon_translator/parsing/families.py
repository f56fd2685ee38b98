"""Loads the tables of model families, one TOML file each, when they are asked for.

A table has the members of `family.Family`. In `calls`, `bare` and `grammar`, `kind` names the class in kinds/ that
reads the calls. `detect` has rules that recognise the family of a model whose profile names none: everything in
`template` is in its chat template, nothing in `without` is, and everything in `vocabulary` is an added token.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from antiphon_translator.parsing.family import Family, PromptStyle
from antiphon_translator.parsing.kinds.bare import BareJson, BarePython
from antiphon_translator.parsing.kinds.gemma_call import GemmaCall
from antiphon_translator.parsing.kinds.harmony import Harmony
from antiphon_translator.parsing.kinds.json_call import JsonCall
from antiphon_translator.parsing.kinds.literal_call import LiteralCall
from antiphon_translator.parsing.kinds.named_call import NamedCall
from antiphon_translator.parsing.kinds.python_call import PythonCall
from antiphon_translator.parsing.kinds.tagged_call import TaggedCall
from antiphon_translator.parsing.kinds.xtml import Xtml

PLAIN = "plain"

_FOLDER = files("antiphon_translator.parsing") / "families"
_KINDS: Mapping[str, type[Any]] = {
    "json": JsonCall,
    "named": NamedCall,
    "tagged": TaggedCall,
    "python": PythonCall,
    "literal": LiteralCall,
    "gemma": GemmaCall,
    "bare_json": BareJson,
    "bare_python": BarePython,
    "harmony": Harmony,
    "xtml": Xtml,
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule that recognises a family: all of its conditions must hold."""

    template: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()

    def weight(self, template: str, vocabulary: Collection[str]) -> int:
        """The number of texts that the rule found; 0 if a condition does not hold."""
        if any(each in template for each in self.without):
            return 0
        if not all(each in template for each in self.template) or not set(self.vocabulary).issubset(vocabulary):
            return 0
        return len(self.found_texts)

    @property
    def found_texts(self) -> tuple[str, ...]:
        """The texts that were found if the rule holds."""
        return (*self.template, *self.vocabulary)


def names() -> list[str]:
    return sorted(each.name.removesuffix(".toml") for each in _FOLDER.iterdir() if each.name.endswith(".toml"))


@cache
def load(name: str) -> Family:
    """The family of this name. KeyError: there is none. ValueError: its table is wrong."""
    table = dict(_table(name))
    table.pop("detect", None)
    try:
        return Family(
            name=name,
            calls=tuple(_reader_of(each) for each in table.pop("calls", ())),
            bare=_reader_of(table.pop("bare")) if "bare" in table else None,
            grammar=_reader_of(table.pop("grammar")) if "grammar" in table else None,
            prompt=PromptStyle(**table.pop("prompt", {})),
            **{key: _frozen(value) for key, value in table.items()},
        )
    except (TypeError, KeyError) as error:
        raise ValueError(f"families/{name}.toml: {error}") from error


def detect(template: str, vocabulary: Collection[str]) -> str:
    """The family with the most evidence; `plain` if there is none for any family, or as much for two."""
    found_by_name = evidence(template, vocabulary)
    most = max(map(len, found_by_name.values()), default=0)
    best = [name for name, found in found_by_name.items() if len(found) == most]
    return best[0] if len(best) == 1 else PLAIN


def evidence(template: str, vocabulary: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The texts that speak for each family, found by its strongest rule. Families without any are left out."""
    strongest = {
        name: max(_rules(name), key=lambda rule: rule.weight(template, vocabulary), default=Rule()) for name in names()
    }
    return {name: rule.found_texts for name, rule in strongest.items() if rule.weight(template, vocabulary)}


@cache
def _table(name: str) -> Mapping[str, Any]:
    if name not in names():
        raise KeyError(name)
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text("utf-8"))


def _rules(name: str) -> list[Rule]:
    return [Rule(**{key: _frozen(value) for key, value in rule.items()}) for rule in _table(name).get("detect", ())]


def _reader_of(table: Mapping[str, Any]) -> Any:
    members = {key: _frozen(value) for key, value in table.items() if key != "kind"}
    return _KINDS[table["kind"]](**members)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(each) for each in value) if isinstance(value, list) else value
