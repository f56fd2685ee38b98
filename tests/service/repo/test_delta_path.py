"""The path of a delta in ARCHITECTURE.md is the one that a delta takes: a trace of one is compared with its table."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.trace import delta_from_triton

ARCHITECTURE = Path(__file__).parents[3] / "ARCHITECTURE.md"
ROW = re.compile(r"\| `([A-Za-z_.]+)` \(`([a-z_0-9/.]+)`\) \| (.*) \|")
FILE = re.compile(r"`([a-z_]+\.py)`")
SERVICES = ("antiphon_translator", "antiphon_edge")
"""The packages whose modules are all named. A library has its own documentation, and the vocabulary has no step."""


def rows() -> list[tuple[str, str, list[str]]]:
    """The function and the file of each row, and the names of the files beside it that have a part in it."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    section = text.partition("### The path of a delta\n")[2].partition("\n### ")[0]
    return [(function, file, FILE.findall(what)) for function, file, what in ROW.findall(section)]


async def test_the_path_of_a_delta_is_as_documented() -> None:
    calls = await delta_from_triton()
    called = [(call.function, _in_package(call.file)) for call in calls]
    at = 0
    for function, file, _ in rows():
        assert (function, file) in called[at:], f"{function} does not run, or not in this place"
        at = called.index((function, file), at)
    named = {file for _, file, _ in rows()}
    beside = {name for _, _, names in rows() for name in names}
    executed = {file for _, file in called if file.startswith(SERVICES)}
    assert {file for file in executed - named if Path(file).name not in beside} == set()
    assert beside <= {Path(file).name for file in executed}


def _in_package(file: str) -> str:
    return file[file.index("/antiphon_") + 1 :]
