"""The names of limits contain their unit."""

from __future__ import annotations

from types import ModuleType

import pytest

from antiphon_core import limits
from antiphon_http2 import limits as http2_limits

UNITS = {
    "BYTES",
    "CHARS",
    "ITEMS",
    "PAIRS",
    "DEPTH",
    "MS",
    "S",
    "US",
    "EVENTS",
    "MESSAGES",
    "LOGPROBS",
    "NODES",
    "PIXELS",
    "REDIRECTS",
    "FETCHES",
    "VALUES",
}


@pytest.mark.parametrize("module", [limits, http2_limits])
def test_every_limit_is_a_positive_whole_number_with_its_unit_in_its_name(module: ModuleType) -> None:
    named = {name: value for name, value in vars(module).items() if name.isupper()}
    assert named
    for name, value in named.items():
        assert isinstance(value, int)
        assert value > 0, name
        assert set(name.split("_")) & UNITS, f"{name} does not say its unit"


def test_a_stored_record_fits_into_one_rpc_message() -> None:
    assert limits.RECORD_BYTES_MAX < limits.RPC_MESSAGE_BYTES_MAX
    assert limits.CHAIN_BYTES_MAX < limits.RPC_MESSAGE_BYTES_MAX
