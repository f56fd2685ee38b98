"""Docstrings of the members of pydantic models, for the OpenAPI document.

pydantic can read them itself (`use_attribute_docstrings`), but then parses the source of every model when the process
starts, which takes a tenth of the start of an edge. This module reads them when the document is first requested.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise

from pydantic import BaseModel

from antiphon_core import python_syntax


def member_docs(model: type[BaseModel]) -> Mapping[str, str]:
    """The docstrings of a model's members, inherited ones included, by the members' names in JSON."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            found |= _docs_of_module(base.__module__).get(base.__name__, {})
    return {field.alias or name: found[name] for name, field in model.model_fields.items() if name in found}


@cache
def _docs_of_module(name: str) -> Mapping[str, Mapping[str, str]]:
    """The docstrings of members of all classes of a module."""
    tree = python_syntax.module(getsource(sys.modules[name]))
    return {node.name: dict(_docs_of_class(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _docs_of_class(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for member, following in pairwise(node.body):
        if (
            isinstance(member, ast.AnnAssign)
            and isinstance(member.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            yield member.target.id, cleandoc(following.value.value)
