"""Release of the frames that an exception was raised in, once the exception is answered.

An exception refers to its traceback, the traceback to frames, and the frames to all that the failed call worked on.
Where one of these frames also refers to the exception, as after `raise error` with an argument or a stored error, this
is a cycle that only the garbage collector breaks: 55 rejected turns with a history of 9 MB each held 1 GB until it ran.
So the code that turns an exception into an answer, after which it is not raised again, calls `release_frames`.
"""

from __future__ import annotations


def release_frames(error: BaseException) -> None:
    """Drops the tracebacks of an exception, of its causes and of the members of groups. Log the exception before."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = None
        waiting += (each.__cause__, each.__context__)
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
