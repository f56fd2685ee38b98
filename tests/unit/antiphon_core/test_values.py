"""Values that are made once per token."""

from dataclasses import replace

from antiphon_core.values import value


@value
class _Point:
    x: int
    y: int = 0


@value
class _Other:
    x: int
    y: int = 0


def test_values_with_equal_members_are_equal_and_have_one_hash() -> None:
    assert _Point(1) == _Point(1, 0)
    assert len({_Point(1), _Point(1, 0), _Point(2)}) == 2


def test_values_of_two_classes_are_never_equal() -> None:
    one: object = _Point(1, 2)
    assert one != _Other(1, 2)


def test_a_value_is_a_dataclass_without_a_dict() -> None:
    assert replace(_Point(1), y=2) == _Point(1, 2)
    assert not hasattr(_Point(1), "__dict__")
