"""Checks docstrings, names and commit titles against docs/glossary.md and the rules of language in CONTRIBUTING.md.

python -m tests.support.plain_words             the files of this repository
python -m tests.support.plain_words --commits RANGE   the titles of commits, such as origin/main..HEAD
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support import plain_names

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "clients",
    "containers",
    "examples",
    "libs",
    "triton_models",
    "services/allinone",
    "services/edge",
    "services/store",
    "services/translator",
    "benchmarks",
    "tests",
)
_PRODUCT = ("libs/", "services/", "triton_models/")  # whose names of functions and booleans are checked
TITLE_CHARS_MAX = 72

# A docstring must not begin with these words.
_OPENING = re.compile(r"(What|Who|Whom|Whose|Whoever|That which|The same|As `)(?!\w)")
# Names that the glossary retired, with the word to use.
RETIRED: Mapping[str, str] = {
    "AcceptedRun": "AcceptedTurn",
    "Account": "TenantQuotas",
    "Begun": "AcceptedTurn",
    "Beginnings": "TurnStarter",
    "Door": "Authenticator",
    "Endings": "TurnFinisher",
    "Followings": "LogFollower",
    "Holdings": "KeyedTurns",
    "Place": "StreamSlot, or the noun of the thing",
    "Repetitions": "KeyedTurns",
    "Runs": "TurnRunner",
    "Spend": "QuotaRequest",
    "Spending": "Quotas",
    "Spent": "QuotaAnswer",
    "Tidying": "Cleanup",
    "Told": "LogState",
    "TreeNode": "Node",
    "Twig": "Node",
}
# Files with a name or a docstring that the rules forbid, each with the reason.
EXEMPT: Mapping[str, str] = {
    "services/translator/antiphon_translator/logprobs/alignment.py": "a place in a text, and no stream slot",
    "services/translator/antiphon_translator/schemas/schema_outline.py": "a place in a schema, and no stream slot",
    "tests/clients/test_openai_chat.py": "a place on a map, and no stream slot",
    "tests/unit/antiphon_edge/openapi/test_member_docs.py": "its docstrings are data that its assertions repeat",
}


def faults(source: str) -> Iterator[tuple[int, str]]:
    """Yields the line and the description of each fault in a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and node.name.lstrip("_") in RETIRED:
            yield node.lineno, f"the glossary has {RETIRED[node.name.lstrip('_')]} for {node.name}"
        for line, text in _docstrings(node):
            if found := _OPENING.match(text):
                yield line, f"a docstring begins with the thing or the verb itself, not with '{found[1]}'"


def _docstrings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields the docstrings of modules, classes, functions and attributes: string expressions in a body."""
    body = getattr(node, "body", None)
    for statement in body if isinstance(body, list) else ():
        match statement:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                yield statement.lineno, text.lstrip()


def faults_of_files() -> Iterator[str]:
    """Yields the faults of all files as readable lines."""
    for path in sorted(each for folder in FOLDERS for each in (ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name not in EXEMPT and "node_modules" not in path.parts:
            source = path.read_text(encoding="utf-8")
            of_names = plain_names.faults(ast.parse(source)) if name.startswith(_PRODUCT) else ()
            yield from (f"{name}:{line}: {fault}" for line, fault in (*faults(source), *of_names))


def faults_of_commits(revisions: str) -> Iterator[str]:
    """Yields the titles of commits in a range of revisions that are too long. Merges are skipped."""
    command = ["git", "log", "--no-merges", "--format=%h %s", revisions]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    for line in found.stdout.splitlines():
        title = line.partition(" ")[2]
        if len(title) > TITLE_CHARS_MAX:
            yield f"{line}: {len(title)} characters, at most {TITLE_CHARS_MAX}"


def main(arguments: list[str]) -> int:
    found = list(faults_of_commits(arguments[1]) if arguments[:1] == ["--commits"] else faults_of_files())
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
