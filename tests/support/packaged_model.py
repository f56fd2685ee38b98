"""The modules of the packaged Triton model, loaded by path, because their folder is no package."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from antiphon_local_triton.repository import MODEL_NAME, TEMPLATE_REPOSITORY


def packaged(name: str) -> ModuleType:
    """The module `name` of the packaged model."""
    spec = importlib.util.spec_from_file_location(
        f"packaged_{name}", TEMPLATE_REPOSITORY / MODEL_NAME / "1" / f"{name}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
