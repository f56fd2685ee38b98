from __future__ import annotations

import pytest

from antiphon_core.telemetry.instruments import (
    OVERFLOW,
    CounterChild,
    Declaration,
    Instrument,
    counter,
    gauge,
    histogram,
)


def test_children_with_different_labels_count_apart() -> None:
    found = counter("x_total", "", targets=["edge"], labels=["code"])
    found.of("200").add()
    found.of("200").add(2)
    found.of("404").add()
    assert {labels: child.value for labels, child in found.children().items()} == {("200",): 3, ("404",): 1}


def test_a_histogram_counts_each_value_in_the_first_bucket_that_holds_it() -> None:
    child = histogram("x_seconds", "", targets=["edge"], buckets=[1, 2]).of()
    for value in (0.5, 1.0, 1.5, 9.0):
        child.observe(value)
    assert (child.counts, child.sum, child.count) == ([2, 1, 1], 12.0, 4)
    child.observe_all([1.0, 3.0])
    assert (child.counts, child.sum, child.count) == ([3, 1, 2], 16.0, 6)


def test_a_bucket_keeps_the_last_sampled_trace() -> None:
    child = histogram("x_seconds", "", targets=["edge"], buckets=[1]).of()
    child.observe(0.5, "a")
    child.observe(0.25, "b")
    child.observe(0.75)
    assert {bucket: (found.trace_id, found.value) for bucket, found in child.exemplars.items()} == {0: ("b", 0.25)}


def test_a_gauge_can_be_set_moved_or_computed() -> None:
    child = gauge("x", "", targets=["edge"]).of()
    child.set(3)
    child.add(-1)
    assert child.value == 2
    child.set_function(lambda: 7.0)
    assert child.value == 7


def test_an_instrument_without_labels_is_there_from_the_start() -> None:
    assert list(counter("x_total", "", targets=["edge"]).children()) == [()]


def test_a_wrong_number_of_labels_is_refused() -> None:
    with pytest.raises(TypeError, match="has the labels"):
        counter("x_total", "", targets=["edge"], labels=["code"]).of("a", "b")


def test_children_beyond_the_bound_are_counted_together() -> None:
    found = Instrument(Declaration("x_total", "", ("edge",), ("a", "b")), CounterChild, most=2)
    for number in range(5):
        found.of(str(number), "b").add()
    assert found.children()[OVERFLOW, OVERFLOW].value == 3
    assert len(found.children()) == 3


def test_a_child_whose_subject_is_gone_is_forgotten() -> None:
    found = gauge("x", "", targets=["edge"], labels=["endpoint"])
    found.of("a").set(1)
    found.forget("a")
    assert not found.children()


def test_a_name_or_buckets_that_do_not_fit_the_kind_are_rejected() -> None:
    with pytest.raises(TypeError, match="ends in _total"):
        counter("x", "", targets=["edge"])
    with pytest.raises(TypeError, match="ends in _seconds"):
        histogram("x_bytes", "", targets=["edge"], buckets=[1])
    with pytest.raises(TypeError, match="buckets grow"):
        histogram("x_seconds", "", targets=["edge"], buckets=[2, 1])
