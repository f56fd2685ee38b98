"""The table of backends and topics: printed with counts after a test run, and kept in the docs without counts.

python -m tests.contract.store.table > docs/reference/store-engines.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import getmembers, isfunction

import pytest

from antiphon_store.testing.topics import TOPICS, Capability, Suite
from tests.contract.store.implementations import BACKENDS, EXAMPLES, IMPLEMENTATIONS, NOT_YET
from tests.contract.store.kit_table import PROPERTY

HOLE, NOT_ASKED = "hole", ""
MODELS = "any sequence, as in memory"  # test_model.py, test_jobs_model.py
ROWS = (*TOPICS, MODELS)

PAGE = """# What each backend of the store does

Written by `make docs` from the rows that the tests run by (`tests/contract/store/implementations.py`,
`antiphon_store/testing/topics.py`); a test keeps them equal. `make test` prints the same table with how many tests of
each topic passed on each backend.

{table}

Everything runs on every backend, except the checks of arguments and of the sizes of answers: the service makes them
itself, so they run on memory, in the process and over gRPC. gRPC does not know what is below it: it runs on memory, and
besides on one backend that is elsewhere. An empty field is not asked: opening, closing and what only operators see are
no part of the port, and the sealed rows leave out topics that compare no sealed content, or count its bytes.

{reasons}
"""


def tests_of(suite: Suite) -> list[str]:
    return [name for name, _ in getmembers(suite, isfunction) if name.startswith("test_")]


def promise(topic: str, name: str) -> str:
    """The promise of the rows for a field: "yes", the names of the tests left out with the reason, a hole, or
    nothing."""
    implementation = IMPLEMENTATIONS[name]
    if topic == MODELS:
        return promise_of_models(name)
    tests = [(suite, test) for suite in TOPICS[topic] for test in tests_of(suite)]
    asked = [each for each in tests if implementation.asks(topic, *each)]
    if not asked:
        return NOT_ASKED
    lacking = [implementation.lacking(*each) for each in asked]
    missing, missing_everywhere = frozenset.union(*lacking), frozenset.intersection(*lacking)
    if NOT_YET in {BACKENDS[implementation.backend].lacks[need] for need in missing}:
        return HOLE
    if not missing:
        return "yes"
    if all(lacking):
        return f"no: {', '.join(sorted(missing_everywhere or missing))}"
    return f"yes, without {', '.join(sorted(missing))}"


def promise_of_models(name: str) -> str:
    if name not in BACKENDS or name == "memory":
        return NOT_ASKED
    return "yes"


def mark(item: pytest.Item, topic: str, name: str) -> None:
    """Records the field of the table that a test belongs to."""
    item.user_properties.append((PROPERTY, f"{topic}|{name}"))


def rows_of(
    topics: Sequence[str], field: Callable[[str, str], str], names: Sequence[str] = tuple(IMPLEMENTATIONS)
) -> list[list[str]]:
    return [["topic", *names], *([topic, *(field(topic, name) for name in names)] for topic in topics)]


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns of equal width. A text of several words takes several lines."""
    cells = [[cell.split(" ") for cell in row] for row in rows]
    widths = [max(len(word) for row in cells for word in row[column]) for column in range(len(rows[0]))]
    widths[0] = max(len(row[0]) for row in rows)
    for first, row in zip((row[0] for row in rows), cells, strict=True):
        words = [[first], *row[1:]]
        for line in range(max(map(len, words))):
            yield "  ".join(
                (cell[line] if line < len(cell) else "").ljust(width) for cell, width in zip(words, widths, strict=True)
            ).rstrip()


def page() -> str:
    """The content of docs/reference/store-engines.md."""
    head, *rows = rows_of(ROWS, promise, [name for name in IMPLEMENTATIONS if name not in EXAMPLES])
    lines = [head, ["---"] * len(head), *rows]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return PAGE.format(table=table, reasons="\n".join(reasons()))


def reasons() -> Iterator[str]:
    """The reasons why a backend leaves topics out, one line for each."""
    for name, backend in BACKENDS.items():
        for capability in Capability:
            if backend.lacks.get(capability, NOT_YET) != NOT_YET:
                yield f"- **{name}** has no {capability}: {backend.lacks[capability]}."


if __name__ == "__main__":
    print(page(), end="")
