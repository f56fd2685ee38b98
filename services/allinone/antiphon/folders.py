"""The folders of `antiphon up` on this machine, as the XDG base directories have them."""

from __future__ import annotations

import os
from pathlib import Path


def default_data_folder() -> Path:
    """The folder of conversations and models, unless --data names another one."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "antiphon"


def cache_folder() -> Path:
    """The folder of the Triton environment. It holds nothing of the user's, and all data folders share it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "antiphon"
