"""Calls before they are sent, with the functions that read their answers. The blocking and the asyncio client share
them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from antiphon_store_client.v1 import conversations_pb2, responses_pb2, sessions_pb2, trees_pb2

Result = TypeVar("Result")
Answer = TypeVar("Answer", bound=Message)

_FILES = (responses_pb2.DESCRIPTOR, trees_pb2.DESCRIPTOR, sessions_pb2.DESCRIPTOR, conversations_pb2.DESCRIPTOR)
# The paths of RPCs by the names of their requests; each RPC has a request message of its own.
PATHS = {
    method.input_type.full_name: f"/{service.full_name}/{method.name}"
    for file in _FILES
    for service in file.services_by_name.values()
    for method in service.methods
}


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """One unary RPC: its request, the type of its answer, and a function that takes the result from the answer."""

    request: Message
    answer: type[Message]
    result: Callable[[Any], Result]

    @property
    def path(self) -> str:
        return PATHS[self.request.DESCRIPTOR.full_name]


def call(request: Message, answer: type[Answer], result: Callable[[Answer], Result]) -> Call[Result]:
    return Call(request, answer, result)


@dataclass(frozen=True, slots=True)
class Pages(Generic[Result]):
    """A list that is read page by page."""

    first: Call[tuple[Sequence[Result], str]]

    def after(self, page_token: str) -> Call[tuple[Sequence[Result], str]]:
        """Returns the call for the page that `page_token` names."""
        request: Any = type(self.first.request)()
        request.CopyFrom(self.first.request)
        request.page_token = page_token
        return replace(self.first, request=request)


PageMessage = TypeVar("PageMessage", bound=Message)


def pages(
    request: Message, answer: type[PageMessage], members: Callable[[PageMessage], Sequence[Result]]
) -> Pages[Result]:
    """Returns the list that begins with `request`."""

    def page(message: Any) -> tuple[Sequence[Result], str]:
        return members(message), message.next_page_token

    return Pages(Call(request, answer, page))
