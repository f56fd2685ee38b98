"""Files, links, tests and make targets that documents and docstrings name must exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.cases import in_one_test

ROOT = Path(__file__).parents[3]
PRODUCT = ("libs", "services", "triton_models")
FOLDERS = ("benchmarks", "changes", "clients", "docs", "examples", "k8s", "protos", "tests", *PRODUCT)
DOCUMENTS = [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))]
RECORDS = ROOT / "docs/adr"  # decision records keep the file names of their time
SOURCES = [path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")]
GUARANTEES = ROOT / "docs/guarantees.md"
ADD_A_BACKEND = ROOT / "docs/howto/add-a-backend.md"

_FILE = re.compile(r"(?<![\w./*-])[\w/-]+\.(?:py|md|sql|lua|toml|proto|yaml|jinja|pbtxt)\b")
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
_PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
_MAKE = re.compile(r"(?:`|^ {4}|^```bash\n)make ([a-z]+(?:-[a-z0-9]+)*)", re.MULTILINE)
_TEST = re.compile(r"`(?:[\w/]+/)?(\w+\.py)::(\w+)`|`(test_\w+)`")
CODE = {".go", ".js", ".lua", ".proto", ".py", ".sh", ".sql", ".toml", ".ts", ".yaml", ".json", ".jinja", ".tpl"}
# Files of users, of examples and of other projects.
FOREIGN = {
    "librechat.yaml",
    "mcp.toml",
    "config.pbtxt",
    "model.toml",
    "model.yaml",
    "notes.md",
    "own.jinja",
    "triton_python_backend_utils.py",
    "NNNN_what_it_does.sql",
}


_CODE = re.compile(r"`([^`\n]+)`")
_NAME = re.compile(r"\b(?:[a-z][a-z0-9]*(?:_[a-z0-9]+)+|(?:[A-Z][a-z0-9]+){2,}|[A-Z]+(?:_[A-Z0-9]+)+)\b")
_DECISION = re.compile(r"^\| \[\d{4}\]\(([^)]+)\) \| .* \| (.*?) \|$", re.MULTILINE)
_STATUS = re.compile(r"^Status: (.*?)\n\s*\n", re.MULTILINE | re.DOTALL)
# Names of other software, of examples, and of rules of the glossary.
FOREIGN_NAMES = {
    "ANTIPHON_API_KEY",
    "OPENAI_BASE_URL",
    "TURNS_MAX",
    "WithDefaultServiceConfig",
    "api_base",
    "encode_batch",
    "env_key",
    "openai_previous_response_id",
    "opened_items",
    "stream_idle_timeout_ms",
    "target_session_attrs",
    "test_commit_with_a_stale_fence_is_refused",
    "use_previous_response_id",
}


@cache
def paths() -> tuple[str, ...]:
    """Returns the paths of all files, each with a leading slash."""
    inside = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file())
    return tuple(f"/{path.relative_to(ROOT).as_posix()}" for path in (*ROOT.glob("*"), *inside))


def missing(text: str) -> Iterator[str]:
    """Yields the files that a text names and that do not exist. Names that contain NAME are placeholders."""
    for name in _FILE.findall(text):
        if name not in FOREIGN and "NAME" not in name and not any(path.endswith(f"/{name}") for path in paths()):
            yield name


def test_missing_files_are_found_in_a_text() -> None:
    assert list(missing("`server.py`, routes/server.py, docs/none.md, engines/base.py")) == [
        "routes/server.py",
        "docs/none.md",
    ]


def uneven_rows(text: str) -> Iterator[str]:
    """Yields the rows of tables that have other columns than the row above. A pipe behind a backslash is text; one
    within code is not."""
    columns = 0
    for line in text.splitlines():
        bare = line.replace("\\|", "").strip()
        found = bare.count("|") if bare.startswith("|") else 0
        if columns and found and found != columns:
            yield line
        columns = found


def test_rows_with_other_columns_are_found_in_a_table() -> None:
    text = "| a | b |\n|---|---|\n| x \\| y | 1 |\n\n| a |\n|---|\n| one | two |"
    assert list(uneven_rows(text)) == ["| one | two |"]


def test_every_row_of_a_table_has_the_columns_of_its_head() -> None:
    uneven = {path.name: found for path in DOCUMENTS if (found := list(uneven_rows(path.read_text(encoding="utf-8"))))}
    assert uneven == {}


def test_the_readme_of_the_translator_names_every_module() -> None:
    """The README names the module itself, a family of modules (triton_*.py), or a folder."""
    folder = ROOT / "services/translator"
    text = (folder / "README.md").read_text(encoding="utf-8")
    modules = (path.relative_to(folder / "antiphon_translator") for path in folder.rglob("*.py"))
    unplaced = [
        module.as_posix()
        for module in modules
        if module.stem not in ("__init__", "settings")
        and not any(
            name in text for name in (module.name, f"{module.stem.partition('_')[0]}_*.py", f"| `{module.parts[0]}/` |")
        )
    ]
    assert not unplaced


@in_one_test("document", DOCUMENTS)
def test_links_lead_to_files(document: Path) -> None:
    links = _LINK.findall(document.read_text(encoding="utf-8"))
    assert not [link for link in links if not (document.parent / link).exists()]


def test_files_named_in_documents_exist() -> None:
    for document in DOCUMENTS:
        if document.parent != RECORDS:
            text = document.read_text(encoding="utf-8")
            assert not list(missing(text)), document


@cache
def words() -> frozenset[str]:
    """Returns all words of the code, of file names and of the pages that are made from the code."""
    code = [path for path in map(Path, paths()) if path.suffix in CODE and path.name != Path(__file__).name]
    made = [*(ROOT / "docs/reference").glob("*.md"), *ROOT.glob("*.toml"), ROOT / "Makefile"]
    texts = [(ROOT / str(path).lstrip("/")).read_text(encoding="utf-8") for path in code]
    texts += [path.read_text(encoding="utf-8") for path in made]
    return frozenset(word for text in (*texts, *paths()) for word in re.findall(r"\w+", text))


def unknown_names(text: str) -> list[str]:
    """Returns the names in the code of a text that are nowhere in the repository."""
    named = {name for code in _CODE.findall(text) for name in _NAME.findall(code)}
    return sorted(named - words() - FOREIGN_NAMES)


def test_unknown_names_are_found_in_a_text() -> None:
    text = "`StoreService.no_such_thing`, `NoSuchClass`, `NO_SUCH_LIMIT`, no_such_word, `begin_turn(request)`"
    assert unknown_names(text) == ["NO_SUCH_LIMIT", "NoSuchClass", "no_such_thing"]


def test_names_of_code_in_documents_exist() -> None:
    """Classes, functions, fields, settings and metrics. A fragment may name what it removes."""
    for document in DOCUMENTS:
        if document.parent not in (RECORDS, ROOT / "changes") and document.name != "CHANGELOG.md":
            assert not unknown_names(document.read_text(encoding="utf-8")), document


def test_the_status_of_a_decision_names_what_changed_it() -> None:
    """The list of decisions names no later one that the page leaves out, and both agree on whether the page holds."""
    rows = _DECISION.findall((RECORDS / "README.md").read_text(encoding="utf-8"))
    assert len(rows) == len(list(RECORDS.glob("[0-9]*.md")))
    for page, listed in rows:
        status = _STATUS.search((RECORDS / page).read_text(encoding="utf-8"))
        assert status, page
        assert set(re.findall(r"\d{4}", listed)) <= set(re.findall(r"\d{4}", status[1])), page
        assert re.findall(r"\w+", listed)[0] == re.findall(r"\w+", status[1])[0], page


def test_files_named_in_code_exist() -> None:
    for source in SOURCES:
        assert not list(missing(source.read_text(encoding="utf-8"))), source


def test_howto_code_matches_its_example() -> None:
    sources = [*(ROOT / "examples/lmdb_store").rglob("*.py"), ROOT / "tests/contract/store/row_backends.py"]
    texts = [_without_spacing(source.read_text(encoding="utf-8")) for source in sources]
    blocks = _PYTHON.findall(ADD_A_BACKEND.read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        assert any(_without_spacing(block) in text for text in texts), block


def _without_spacing(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def test_make_targets_named_in_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for document in DOCUMENTS:
        named = set(_MAKE.findall(document.read_text(encoding="utf-8")))
        assert named <= targets, document


def test_tests_named_in_the_guarantees_exist() -> None:
    named = _TEST.findall(GUARANTEES.read_text(encoding="utf-8"))
    texts = {
        path: path.read_text(encoding="utf-8")
        for folder in ("tests", "services/store/antiphon_store/testing")
        for path in (ROOT / folder).rglob("*.py")
    }
    assert len(named) > 20
    for module, test, alone in named:
        found = [path for path, text in texts.items() if f"def {test or alone}(" in text and module in ("", path.name)]
        assert found, module or alone
