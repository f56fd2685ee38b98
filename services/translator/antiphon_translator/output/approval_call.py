"""A call that needs an approval, while the model writes it.

Nothing of it is sent before it is whole: then it is a request for an approval. A call that was cut off, or whose
arguments are too long for any server, is no request: it becomes a call that did not run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from antiphon_core.jsons import Object
from antiphon_core.limits import TOOL_ARGUMENTS_BYTES_MAX
from antiphon_core.request.server_items import REQUEST


@dataclass(slots=True)
class ApprovalCall:
    """A call that is being written. `members` are those of its item, without the arguments."""

    members: Object
    _arguments: list[str] = field(default_factory=list)
    """The pieces of its arguments so far; none once they are too long."""
    _bytes: int = 0

    def add(self, arguments: str) -> None:
        """Takes the next piece of the arguments."""
        self._bytes += len(arguments.encode("utf-8", "surrogatepass"))
        if self._bytes <= TOOL_ARGUMENTS_BYTES_MAX:
            self._arguments.append(arguments)
        else:
            self._arguments.clear()

    @property
    def is_readable(self) -> bool:
        """Whether the arguments are short enough for a call."""
        return self._bytes <= TOOL_ARGUMENTS_BYTES_MAX

    @property
    def arguments(self) -> str:
        return "".join(self._arguments)

    def request(self) -> Object:
        """The item that asks for the approval, without its id."""
        return {"type": REQUEST, **self.members, "arguments": self.arguments}
