"""Many small cases in one test. As parameters, a thousand cases of a millisecond take three seconds more: pytest makes
each of them an item in every process, and sends each result to another process."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any

Test = Callable[..., None]
Cases = Mapping[str, Any] | Collection[Any]


def in_one_test(argument: str, cases: Cases | Callable[[], Cases]) -> Callable[[Test], Test]:
    """Decorates a test that is called with each case, and fails with the names of all cases that fail. A mapping names
    its cases; other cases are named by their `id` or their text. Cases that must not be made while tests are collected
    come from a function."""

    def decorated(test: Test) -> Test:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            made = cases() if callable(cases) else cases
            named = made if isinstance(made, Mapping) else {str(getattr(case, "id", case)): case for case in made}
            assert len(named) == len(made) > 0
            errors = list[AssertionError]()
            for name, case in named.items():
                try:
                    test(**fixtures, **{argument: case})
                except AssertionError as error:
                    error.add_note(f"case: {name}")
                    errors.append(error)
                except BaseException as error:
                    error.add_note(f"case: {name}")
                    raise
            if errors:
                raise ExceptionGroup(f"{len(errors)} of {len(named)} cases fail", errors)

        signature = inspect.signature(test)
        left = [each for each in signature.parameters.values() if each.name != argument]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorated
