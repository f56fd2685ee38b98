from __future__ import annotations

import pytest

from antiphon.mistakes import MISTAKES, explain
from antiphon_core.config import SettingsError
from antiphon_core.errors import StoreUnavailable
from antiphon_local_triton.errors import LocalModelError


@pytest.mark.parametrize(
    ("error", "explained"),
    [
        (SettingsError("No such target."), ("No such target.", 2)),
        (LocalModelError("No room."), ("No room.", 2)),
        (StoreUnavailable("It is away."), ("It is away.", 1)),
        (PermissionError(13, "Permission denied", "f"), ("f: Permission denied", 1)),
        (OSError("only words"), ("only words", 1)),
    ],
)
def test_expected_errors_become_a_message_and_an_exit_status(error: Exception, explained: tuple[str, int]) -> None:
    assert isinstance(error, MISTAKES)
    assert explain(error) == explained
