"""The interface of an engine: four methods, whatever runs the model.

A file of the folder `engines` has one engine: `FEATURES`, the names of what it can do (`signature.FEATURES`);
`ARGUMENTS`, what a new model.yaml has beside the model; and
`load(arguments, wanted)`, which loads the model and returns the `Engine`. `arguments` are those of model.yaml, `wanted`
the features whose tensors config.pbtxt declares. `load` raises `LoadError` where the installed library lacks one of
them, or an argument is wrong: a mistake shows when Triton loads the model, and not with the first request.
"""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from antiphon_tokens import engines
from antiphon_tokens.generation import Facts, FinishReason, Generation, Limits, Token


class LoadError(Exception):
    """The model cannot be loaded; the message says what to change."""


class Listener(Protocol):
    """Takes what an engine generates, on one thread of the engine, which it never blocks for long."""

    def on_tokens(self, tokens: Sequence[Token], facts: Facts) -> bool:
        """Takes new tokens. Returns whether more are wanted; if not, the engine ends the generation at once."""

    def on_end(self, finish: FinishReason) -> None:
        """The generation has ended. Called once, if `on_error` is not; nothing is called behind it."""

    def on_error(self, message: str, *, is_request: bool) -> None:
        """The generation has failed. `is_request`: the request is at fault, and not the engine."""


@dataclass(frozen=True)
class Capabilities:
    """The abilities of a loaded engine. `title` has its name and version, for the log."""

    title: str
    features: frozenset[str]
    limits: Limits


class Engine(Protocol):
    """A loaded model. All methods can be called from any thread."""

    def submit(self, generation: Generation, listener: Listener) -> None:
        """Queues a generation that `generation.fit` has passed. May take as long as its guide takes to compile.
        RequestError: it can never run."""

    def cancel(self, listener: Listener) -> None:
        """Ends the generation of a listener within one token. Does nothing if it has ended."""

    def capabilities(self) -> Capabilities: ...

    def close(self) -> None:
        """Ends all generations with an error, and frees the model."""


class EngineModule(Protocol):
    """A file of the folder `engines`."""

    FEATURES: frozenset[str]
    ARGUMENTS: Mapping[str, Any]

    def load(self, arguments: Mapping[str, Any], wanted: frozenset[str]) -> Engine: ...


def names() -> list[str]:
    """The engines that there are: the files of the folder."""
    return sorted(module.name for module in pkgutil.iter_modules(engines.__path__))


def module(name: str) -> EngineModule:
    """The file of an engine. LoadError: there is none of this name."""
    if name not in names():
        raise LoadError(f"There is no engine {name!r}; there are: {', '.join(names())}.")
    found: Any = importlib.import_module(f"{engines.__name__}.{name}")
    return found  # type: ignore[no-any-return]


def require(engine: str, missing: Mapping[str, str]) -> None:
    """Raises LoadError if the installed library of an engine lacks a wanted feature. `missing` maps each such feature
    to what the library has not."""
    if missing:
        listed = "; ".join(f"{feature} (no {what})" for feature, what in sorted(missing.items()))
        raise LoadError(
            f"config.pbtxt declares tensors that the installed {engine} cannot serve: {listed}. "
            f"Install a newer release, or write the model again with --without {','.join(sorted(missing))}."
        )
