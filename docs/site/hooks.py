"""Hooks of mkdocs: pages from files outside `docs/`, links between all of them, and a navigation by folders.

The documents are written for readers of the repository, so their links lead to files. On the site a link to another
page stays a link; a link to a file that is no page, such as code, becomes its text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
# Pages whose files lie elsewhere: the path in the repository, and that on the site.
ELSEWHERE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "explain/architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "k8s/README.md": "howto/kubernetes.md",
    "services/edge/README.md": "reference/edge.md",
    "services/store/README.md": "reference/store.md",
    "services/translator/README.md": "reference/translator.md",
}
# The navigation: titles, and the pages or folders behind them.
SECTIONS = {
    "Home": "index.md",
    "Tutorial": "tutorial.md",
    "How to": "howto/",
    "Explanations": "explain/",
    "Reference": "reference/",
    "Promises": ["guarantees.md", "glossary.md", "tests.md", "security.md"],
    "Runbooks": "runbooks/",
    "Decisions": "adr/",
    "Contributing": ["contributing.md", "changelog.md"],
}

_LINK = re.compile(r"(!?)\[((?:[^][]|\[[^][]*\])*)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages from elsewhere, and sets the navigation."""
    for source, page in ELSEWHERE.items():
        path = ROOT / source
        if path.exists():
            files.append(File.generated(config, page, content=path.read_text(encoding="utf-8")))
    config.nav = list(_navigation({file.src_uri for file in files.documentation_pages()}))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Rewrites the links of a page."""
    pages = {file.src_uri for file in files}
    return with_links(markdown, page.file.src_uri, pages)


def with_links(markdown: str, page: str, pages: set[str]) -> str:
    """The text of a page with its links to files as links to pages, or as their text."""
    source = _source_of(page)

    def link(found: re.Match[str]) -> str:
        mark, text, target, anchor = found.groups()
        there = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        on_site = ELSEWHERE.get(there, there.removeprefix("docs/"))
        if on_site not in pages:
            return text
        return f"{mark}[{text}]({posixpath.relpath(on_site, posixpath.dirname(page) or '.')}{anchor or ''})"

    return _LINK.sub(link, markdown)


def _source_of(page: str) -> str:
    """The path in the repository of a page of the site."""
    return next((source for source, there in ELSEWHERE.items() if there == page), f"docs/{page}")


def _navigation(pages: set[str]) -> Iterator[dict[str, str | list[str]]]:
    for title, wanted in SECTIONS.items():
        if isinstance(wanted, list):
            yield {title: [page for page in wanted if page in pages]}
        elif wanted.endswith("/"):
            yield {title: sorted(page for page in pages if page.startswith(wanted))}
        elif wanted in pages:
            yield {title: wanted}
