"""Runs Python programs one after the other, each in a forked process that already has the modules of the first.

    python -I forked_programs.py FIRST.py SECOND.py ...

Importing a large client takes seconds, which are spent once. The exit status is that of the first failed program. This
module uses only the standard library, because it runs in the environment of the client.
"""

import ast
import importlib
import os
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path


def imported(program: str) -> Iterator[str]:
    """Yields the modules that a program imports at its beginning."""
    for statement in ast.parse(Path(program).read_text("utf-8")).body:
        if isinstance(statement, ast.Import):
            yield from (each.name for each in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            yield statement.module


def main(*programs: str) -> None:
    for module in imported(programs[0]):
        importlib.import_module(module)
    for program in programs:
        child = os.fork()
        if not child:
            runpy.run_path(program, run_name="__main__")
            return
        if status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            sys.exit(f"{program} ended with status {status}")


if __name__ == "__main__":
    main(*sys.argv[1:])
