from __future__ import annotations

import pytest

from antiphon_core.telemetry.trace_context import TRACESTATE_CHARS_MAX, TraceContext

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(("flags", "is_sampled"), [("00", False), ("01", True), ("03", True), ("02", False)])
def test_a_traceparent_is_read(flags: str, is_sampled: bool) -> None:
    assert TraceContext.parse(f"00-{TRACE}-{SPAN}-{flags}") == TraceContext(TRACE, SPAN, is_sampled)


def test_written_trace_headers_are_read_back() -> None:
    context = TraceContext(TRACE, SPAN, is_sampled=True, state="a=1,b=2")
    headers = dict(context.headers())
    assert headers == {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "a=1,b=2"}
    assert TraceContext.parse(headers["traceparent"], headers["tracestate"]) == context


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}",
    ],
)
def test_an_invalid_traceparent_is_ignored(text: str) -> None:
    assert TraceContext.parse(text) is None


def test_a_traceparent_of_a_later_version_may_have_more_fields() -> None:
    assert TraceContext.parse(f"01-{TRACE}-{SPAN}-01-more") == TraceContext(TRACE, SPAN, is_sampled=True)


@pytest.mark.parametrize("state", ["a" * (TRACESTATE_CHARS_MAX + 1), "a=\n", "a=é"])
def test_a_tracestate_that_cannot_be_passed_on_is_dropped(state: str) -> None:
    assert TraceContext.parse(f"00-{TRACE}-{SPAN}-01", state) == TraceContext(TRACE, SPAN, is_sampled=True)
