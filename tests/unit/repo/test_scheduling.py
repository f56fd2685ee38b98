from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scheduling import SHARED_SERVERS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("file", [file for group in SHARED_SERVERS for file in group])
def test_files_in_groups_of_shared_servers_exist(file: str) -> None:
    assert (ROOT / file).is_file()
