"""Checks by the names of parameters. Which value of which argument is refused: `antiphon_store.testing.arguments`."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.full_store import FullStore
from antiphon_store.arguments import CHECKS, EXCEPTIONS, checked
from antiphon_store.service import StoreService

UNCHECKED = {"order", "from_root", "follow", "status", "outcome"}
"""Their types have no bad values."""


class Service:
    @checked
    async def children(self, tenant: str, response_id: str | None, *, limit: int = 0) -> int:
        """Gives the limit."""
        return limit


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
async def test_an_argument_is_refused_by_its_name(args: Any, kwargs: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await Service().children(*args, **kwargs)
    assert caught.value.field == field


async def test_what_is_none_or_left_out_is_not_checked() -> None:
    assert await Service().children("t", None) == 0


def test_a_method_keeps_its_name_and_its_words() -> None:
    assert (Service.children.__name__, Service.children.__doc__) == ("children", "Gives the limit.")


@pytest.mark.parametrize("name", [name for name, _ in inspect.getmembers(FullStore, inspect.isfunction)])
def test_every_argument_of_the_ports_has_a_rule(name: str) -> None:
    if name.startswith("_"):
        return
    parameters = list(inspect.signature(getattr(StoreService, name)).parameters)[1:]
    assert not set(parameters) - CHECKS.keys() - EXCEPTIONS.get(name, {}).keys() - UNCHECKED
