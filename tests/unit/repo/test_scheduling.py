from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scheduling import SHARED_SERVERS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("file", [file for group in SHARED_SERVERS for file in group])
def test_a_file_that_shares_servers_exists(file: str) -> None:
    assert (ROOT / file).is_file()
