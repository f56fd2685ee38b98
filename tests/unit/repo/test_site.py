"""Tests docs/site/hooks.py, which turns the documents into a site."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
PAGES = {"index.md", "tutorial.md", "howto/observe.md", "howto/kubernetes.md", "reference/edge.md"}


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs/site/hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("page", "written", "shown"),
    [
        ("tutorial.md", "[x](howto/observe.md)", "[x](howto/observe.md)"),
        ("tutorial.md", "[x](../k8s/README.md#sizes)", "[x](howto/kubernetes.md#sizes)"),
        ("index.md", "[x](docs/howto/observe.md)", "[x](howto/observe.md)"),
        ("howto/kubernetes.md", "[x](../README.md)", "[x](../index.md)"),
        ("reference/edge.md", "[the code](antiphon_edge/server.py)", "the code"),
        ("tutorial.md", "[x](https://example.org/a.md)", "[x](https://example.org/a.md)"),
        ("tutorial.md", "[x](#start)", "[x](#start)"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(
    hooks: ModuleType, page: str, written: str, shown: str
) -> None:
    assert hooks.with_links(written, page, PAGES) == shown


def test_the_navigation_has_pages_and_folders_in_the_order_of_the_sections(hooks: ModuleType) -> None:
    assert list(hooks._navigation(PAGES)) == [
        {"Home": "index.md"},
        {"Tutorial": "tutorial.md"},
        {"How to": ["howto/kubernetes.md", "howto/observe.md"]},
        {"Explanations": []},
        {"Reference": ["reference/edge.md"]},
        {"Promises": []},
        {"Runbooks": []},
        {"Decisions": []},
        {"Contributing": []},
    ]


def test_files_outside_docs_have_distinct_pages(hooks: ModuleType) -> None:
    assert len(set(hooks.ELSEWHERE.values())) == len(hooks.ELSEWHERE)
