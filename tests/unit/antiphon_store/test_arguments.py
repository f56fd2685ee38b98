"""Checks by the names of parameters. `antiphon_store.testing.arguments` tests the values that are rejected."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.lineage import LineageStore
from antiphon_store.arguments import CHECKS, EXCEPTIONS, implements
from antiphon_store.service import StoreService

UNCHECKED = {"order", "from_root", "follow", "status", "outcome"}
"""Parameters whose types have no invalid values."""


class Service:
    @implements(LineageStore.children)
    async def children(self, **named: Any) -> Any:
        return named


RESPONSE = "resp_" + "0" * 48


@pytest.mark.parametrize(
    ("args", "kwargs", "field"),
    [
        (("a b", RESPONSE), {}, "tenant"),
        (("t", "x"), {}, "id"),
        (("t",), {"response_id": "x"}, "id"),
        (("t", RESPONSE), {"limit": 1_001}, "limit"),
    ],
)
async def test_the_error_for_an_invalid_argument_names_its_field(args: Any, kwargs: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await Service().children(*args, **kwargs)
    assert caught.value.field == field


async def test_omitted_arguments_get_defaults_and_none_is_not_checked() -> None:
    named = {"tenant": "t", "response_id": RESPONSE, "cursor": None, "limit": limits.LIST_ITEMS_DEFAULT}
    found: list[Any] = [await Service().children("t", RESPONSE), await Service().children("t", RESPONSE, cursor=None)]
    assert found == [named, named]
    found = [await Service().children(response_id=RESPONSE, tenant="t", limit=2)]
    assert found == [{**named, "limit": 2}]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("t",), {}),
        (("t", RESPONSE, "more"), {}),
        (("t", RESPONSE), {"response_id": RESPONSE}),
        (("t", RESPONSE), {"depth": 1}),
        (("t",), {"depth": 1}),
    ],
)
async def test_missing_or_unknown_arguments_raise_a_type_error(args: Any, kwargs: Any) -> None:
    with pytest.raises(TypeError):
        await Service().children(*args, **kwargs)


def test_an_implemented_method_has_the_name_and_docstring_of_its_port() -> None:
    assert (Service.children.__name__, Service.children.__doc__) == ("children", LineageStore.children.__doc__)


PORT_METHODS = [name for name, _ in inspect.getmembers(FullStore, inspect.isfunction) if not name.startswith("_")]


@pytest.mark.parametrize("name", PORT_METHODS)
def test_every_argument_of_the_ports_has_a_rule(name: str) -> None:
    parameters = list(inspect.signature(getattr(StoreService, name)).parameters)[1:]
    assert not set(parameters) - CHECKS.keys() - EXCEPTIONS.get(name, {}).keys() - UNCHECKED
