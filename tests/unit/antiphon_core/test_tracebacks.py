from __future__ import annotations

import gc
import weakref

from antiphon_core.tracebacks import release_frames


class Work:
    """Something large that a failed call worked on."""


def _raise(error: Exception) -> None:
    raise error  # this frame refers to the error, and the error to this frame


def _fail(kind: str, work: Work) -> None:
    """Raises an error of which one exception is part of a cycle. All frames refer to `work`."""
    if kind == "raised":
        _raise(ValueError(work))
    try:
        _raise(ValueError("inner"))
    except ValueError as error:
        if kind == "cause":
            raise KeyError("outer") from error
        if kind == "context":
            raise KeyError("outer")  # noqa: B904 - this is what is tested
        raise ExceptionGroup("group", [error, OSError()]) from None


def failed(kind: str, *, releases: bool) -> weakref.ref[Work]:
    work = Work()
    seen = weakref.ref(work)
    try:
        _fail(kind, work)
    except Exception as error:  # noqa: BLE001 - each kind raises another class
        if releases:
            release_frames(error)
    return seen


def test_released_exceptions_keep_no_frame_alive() -> None:
    gc.disable()
    try:
        for kind in ("raised", "cause", "context", "group"):
            assert failed(kind, releases=True)() is None, kind
            assert failed(kind, releases=False)() is not None, kind  # or this test could not fail
    finally:
        gc.enable()


def test_an_exception_that_is_its_own_context_is_released() -> None:
    one, other = ValueError(), KeyError()
    one.__context__, other.__context__ = other, one
    release_frames(one)
    assert one.__traceback__ is None
