"""Writes the folder of a model into a model repository of Triton:

NAME/config.pbtxt          the tensors that the engine serves
NAME/1/model.yaml          the arguments of the engine
NAME/1/model.py            what Triton loads: one import
NAME/1/antiphon_tokens/    a copy of this package
"""

import shutil
import tempfile
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antiphon_tokens import arguments, engine, signature

CONFIG_FILE = "config.pbtxt"
VERSION = "1"
BATCH_MAX = 64
"""Triton's `max_batch_size`. Requests are never batched here, but a model with the classic tensors needs one."""
_PACKAGE = Path(__file__).parent
_MODEL_PY = '''"""Triton loads this file. The model is in the package beside it."""

from antiphon_tokens.model import TritonPythonModel  # noqa: F401
'''
_NO_CACHES = shutil.ignore_patterns("__pycache__")


@dataclass(frozen=True)
class Model:
    """A model to write. `without`: features that the engine has, and that this model does not offer."""

    name: str
    engine: str
    arguments: Mapping[str, Any]
    without: Set[str] = field(default_factory=frozenset)

    @property
    def features(self) -> frozenset[str]:
        """The features whose tensors are declared. LoadError: `without` names none, or there is no such engine."""
        unknown = sorted(self.without - set(signature.FEATURES))
        if unknown:
            raise engine.LoadError(f"There is no feature {unknown[0]!r}; there are: {', '.join(signature.FEATURES)}.")
        return engine.module(self.engine).FEATURES - self.without


def write(repository: Path, model: Model) -> Path:
    """Writes a model into the folder `repository`, in the place of one of its name, and returns its folder.

    Raises:
        LoadError: the model names no engine or feature that there is.
    """
    features = model.features
    folder = repository / model.name
    repository.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=repository, prefix=f".{model.name}-") as scratch:
        fresh = Path(scratch) / "fresh"
        write_code(fresh / VERSION)
        comment = f"The arguments of {model.engine}: one a line, the value in JSON."
        (fresh / VERSION / arguments.FILE).write_text(arguments.to_text(model.arguments, comment), "utf-8")
        config = signature.config(model.name, model.engine, features, batch_max=BATCH_MAX)
        (fresh / CONFIG_FILE).write_text(config, "utf-8")
        if folder.exists():
            folder.replace(Path(scratch) / "old")
        fresh.replace(folder)
    return folder


def write_code(version: Path) -> None:
    """Writes the code of a model into the folder of its version."""
    shutil.copytree(_PACKAGE, version / _PACKAGE.name, ignore=_NO_CACHES)
    (version / "model.py").write_text(_MODEL_PY, "utf-8")
