"""The folders of `antiphon up`, by the XDG Base Directory Specification."""

from __future__ import annotations

import os
from pathlib import Path


def default_data_folder() -> Path:
    """The folder of the store and the models, unless --data names another one."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "antiphon"


def cache_folder() -> Path:
    """The folder of Triton's virtual environment. It has no data of the user, and all data folders share it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "antiphon"
