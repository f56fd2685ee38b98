"""The page shows the whole document, and loads nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from antiphon_edge.openapi.document import document
from antiphon_edge.openapi.page import page


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.targets: set[str] = set()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.ids.add(given.get("id") or "")
        self.targets.add(given.get("href") or "")


def test_page_has_all_operations_and_schemas() -> None:
    for path in document()["paths"]:
        assert path in page()
    for name in document()["components"]["schemas"]:
        assert f'id="{name}"' in page()


def test_operations_are_described() -> None:
    described = document()["paths"]["/v1/responses/{id}/cancel"]["post"]["description"]
    assert f"<p>{described}</p>" in page()


def test_page_loads_nothing_external_and_has_no_dead_links() -> None:
    links = Links()
    links.feed(page())
    assert not links.tags & {"script", "link", "img", "iframe"}
    assert not re.search(r"https?://", page())
    assert {target[1:] for target in links.targets if target.startswith("#")} <= links.ids
    assert {target for target in links.targets if target and not target.startswith("#")} == {"openapi.json"}


def test_page_escapes_html_in_texts() -> None:
    assert "<DIR>" not in page()
    assert "&quot;" in page()
