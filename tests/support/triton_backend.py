"""A stand-in for the module that Triton's Python backend gives to its models, and the requests that it hands over."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

FINAL = 1


@dataclass
class Tensor:
    name: str
    values: Any

    def as_numpy(self) -> Any:
        return self.values


@dataclass
class TritonError:
    message: str
    code: int = 0

    INVALID_ARG = 3
    INTERNAL = 13


@dataclass
class InferenceResponse:
    outputs: list[Tensor] = field(default_factory=list)
    error: TritonError | None = None


@dataclass
class Sender:
    """Keeps what is sent. `cancelled`: the client is gone."""

    cancelled: bool = False
    broken: bool = False
    sent: list[tuple[InferenceResponse | None, int]] = field(default_factory=list)

    def is_cancelled(self) -> bool:
        return self.cancelled

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        if self.broken:
            raise RuntimeError("the stream is closed")
        self.sent.append((response, flags))

    def outputs(self) -> list[dict[str, Any]]:
        """The outputs of each response, as lists without their dimensions of one."""
        found = [response for response, _ in self.sent if response is not None]
        return [{each.name: np.array(each.values).reshape(-1).tolist() for each in one.outputs} for one in found]

    def error(self) -> TritonError | None:
        return next((one.error for one, _ in self.sent if one is not None and one.error is not None), None)

    def is_closed(self) -> bool:
        return bool(self.sent) and self.sent[-1][1] == FINAL


@dataclass
class Request:
    """A request with these arrays as inputs."""

    inputs: dict[str, Any]
    id: str = ""
    sender: Sender = field(default_factory=Sender)

    def request_id(self) -> str:
        return self.id

    def get_response_sender(self) -> Sender:
        return self.sender


def request(prompt: list[int], tokens_max: int = 4, id: str = "", **scalars: Any) -> Request:  # noqa: A002
    """A request with a prompt, and other inputs as scalars or rows."""
    inputs = {"input_ids": np.array([prompt], dtype="int32"), "request_output_len": np.array([tokens_max])}
    return Request(inputs | {name: tensor(value) for name, value in scalars.items()}, id)


def tensor(value: Any) -> Any:
    """An input of one value, or of a row of them."""
    values = value if isinstance(value, list) else [value]
    encoded = [each.encode() if isinstance(each, str) else each for each in values]
    return np.array([encoded], dtype=object if isinstance(values[0], str | bytes) else None)


def _input(asked: Request, name: str) -> Tensor | None:
    return Tensor(name, asked.inputs[name]) if name in asked.inputs else None


class MetricFamily:
    """Keeps the gauges of a family, by their labels."""

    GAUGE = 1
    families: ClassVar[dict[str, MetricFamily]] = {}
    is_off = False
    """Whether Triton was started without metrics."""

    def __init__(self, *, name: str, description: str, kind: int) -> None:
        if self.is_off:
            raise RuntimeError("metrics are not enabled")
        self.values: dict[tuple[str, ...], float] = {}
        self.changes = 0
        self.families[name] = self

    def Metric(self, *, labels: dict[str, str]) -> Any:
        def show(value: float) -> None:
            self.changes += 1
            self.values[tuple(labels.values())] = value

        return SimpleNamespace(set=show)


LOGGED: list[str] = []
MODULE: Any = SimpleNamespace(
    TRITONSERVER_RESPONSE_COMPLETE_FINAL=FINAL,
    TritonError=TritonError,
    Tensor=Tensor,
    InferenceResponse=InferenceResponse,
    Logger=SimpleNamespace(log_info=LOGGED.append, log_warn=LOGGED.append, log_error=LOGGED.append),
    get_input_tensor_by_name=_input,
    MetricFamily=MetricFamily,
)
