from __future__ import annotations

from antiphon_core.byte_budget import ByteBudget
from antiphon_core.limits import HEAD_BYTES_MAX
from antiphon_edge.http.heads import HEAD_REJECTED, HeadBound


def test_pieces_of_a_head_count_until_it_is_complete() -> None:
    budget = ByteBudget("heads", total=100, share=50)
    head = HeadBound(budget)
    assert head.try_add("a", 30)
    assert not head.try_add("a", 30)
    assert budget.held == 30
    head.clear()
    assert budget.held == 0


def test_head_beyond_its_own_limit_is_rejected() -> None:
    head = HeadBound(ByteBudget("heads", total=10**9, share=10**9))
    assert head.try_add("a", HEAD_BYTES_MAX)
    assert not head.try_add("a", 1)


def test_rejection_of_a_head_is_a_431_answer_with_an_error_body() -> None:
    head, _, body = HEAD_REJECTED.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert b"Content-Length: %d" % len(body) in head
    assert b'"code":"header_too_large"' in body
