from __future__ import annotations

import pytest

from antiphon_core import damage
from antiphon_core.errors import DataDamaged, ResponseNotFound


@pytest.mark.parametrize("error", [KeyError("secret"), TypeError("secret"), ValueError("secret"), OverflowError()])
def test_an_exception_while_stored_data_are_read_is_damage_without_content(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(DataDamaged, match="The log of 'r' is damaged") as caught, damage.reading("the log of 'r'"):
        raise error
    (line,) = caplog.records
    assert "the log of 'r'" in line.getMessage()
    assert "restore the database" in line.__dict__["remedy"]
    assert line.exc_info is None
    assert "secret" not in line.getMessage() + caught.value.message


@pytest.mark.parametrize("error", [ResponseNotFound.of("r"), MemoryError(), OSError()])
def test_other_exceptions_are_passed_on(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(type(error)), damage.reading("a row"):
        raise error
    assert caplog.records == []
