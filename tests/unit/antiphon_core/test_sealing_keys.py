from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.sealing_keys import KEY_BYTES, SealingKeys

FIRST, SECOND = "0" * 64, "1" * 64


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "keys"
    path.write_text(text)
    return path


def test_the_first_key_of_a_file_is_the_current_one(tmp_path: Path) -> None:
    keys = SealingKeys.read(written(tmp_path, f"# rotated\nnew {SECOND} # of today\n\nold {FIRST}\n"))
    assert (keys.current, list(keys.keys)) == ("new", ["new", "old"])
    assert keys.keys["old"] == bytes(KEY_BYTES)
    assert keys.get() is keys


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no keys"),
        ("# none\n", "holds no keys"),
        (f"one {FIRST}\none {SECOND}\n", "line 2"),
        (f"one {FIRST[1:]}\n", "line 1"),
        (FIRST, "line 1"),
    ],
)
def test_an_invalid_key_file_is_rejected_without_showing_its_keys(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says) as caught:
        SealingKeys.read(written(tmp_path, text))
    assert FIRST[1:] not in str(caught.value)


def test_the_error_for_a_missing_key_file_names_its_purpose(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Cannot read the moon keys"):
        SealingKeys.read(tmp_path / "none", "the moon keys")


def test_keys_are_left_out_of_the_repr() -> None:
    keys = SealingKeys.ephemeral()
    assert len(keys.keys[keys.current]) == KEY_BYTES
    assert "keys" not in repr(keys).removeprefix("SealingKeys")
