from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from antiphon_edge.openapi.member_docs import member_docs


class Parent(BaseModel):
    inherited: int
    """What a child has, too."""
    replaced: int
    """What the parent says of it."""


class Child(Parent):
    replaced: int
    """What the child
    says of it."""
    silent: int = 0
    named_: Annotated[int, Field(alias="named")] = 0
    """By its name in JSON."""
    last: int = 0


def test_docstring_behind_a_member_is_found_by_its_json_name() -> None:
    assert member_docs(Child) == {
        "inherited": "What a child has, too.",
        "replaced": "What the child\nsays of it.",
        "named": "By its name in JSON.",
    }
    assert member_docs(Parent)["replaced"] == "What the parent says of it."
