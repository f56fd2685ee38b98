from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon_core.ports.web_search import SearchHit, SearchQuery
from antiphon_tools.web.providers import HIT_TEXT_CHARS_MAX, PROVIDERS, select

KEY = "canary-key"
QUERY = SearchQuery("tea & cake", count=3, domains=("a.example", "b.example"), country="FR")
# Answers as the providers' references show them, shortened to the members that are read.
ANSWERS: dict[str, Any] = {
    "searxng": {
        "query": "tea",
        "number_of_results": 0,
        "results": [
            {
                "url": "https://a.example/1",
                "title": "Tea",
                "content": "About tea.",
                "publishedDate": "2026-11-01T00:00:00",
            }
        ],
    },
    "brave": {
        "type": "search",
        "web": {
            "type": "search",
            "results": [
                {
                    "title": "Tea",
                    "url": "https://a.example/1",
                    "description": "About",
                    "extra_snippets": ["tea."],
                    "age": "2026-11-01T00:00:00",
                }
            ],
        },
    },
    "tavily": {
        "query": "tea",
        "results": [
            {
                "title": "Tea",
                "url": "https://a.example/1",
                "content": "About tea.",
                "score": 0.9,
                "published_date": "2026-11-01T00:00:00",
            }
        ],
    },
    "exa": {
        "requestId": "1",
        "results": [
            {
                "id": "x",
                "title": "Tea",
                "url": "https://a.example/1",
                "publishedDate": "2026-11-01T00:00:00",
                "highlights": ["About", "tea."],
            }
        ],
    },
}


@pytest.mark.parametrize("name", PROVIDERS)
def test_the_answer_of_a_provider_is_read(name: str) -> None:
    (hit,) = select(PROVIDERS[name].results(ANSWERS[name]), QUERY)
    assert (hit.url, hit.title, hit.text.strip()) == ("https://a.example/1", "Tea", "About tea.")
    assert hit.date == "2026-11-01T00:00:00"


@pytest.mark.parametrize(
    ("name", "url", "header", "body"),
    [
        ("searxng", "http://h/search?q=tea+%26+cake&format=json", None, None),
        (
            "brave",
            "http://h/search?q=tea+%26+cake+(site:a.example+OR+site:b.example)&count=3&country=FR",
            ("X-Subscription-Token", KEY),
            None,
        ),
        (
            "tavily",
            "http://h/search",
            ("Authorization", f"Bearer {KEY}"),
            {"query": "tea & cake", "max_results": 3, "include_domains": ["a.example", "b.example"]},
        ),
        (
            "exa",
            "http://h/search",
            ("x-api-key", KEY),
            {
                "query": "tea & cake",
                "numResults": 3,
                "contents": {"highlights": True},
                "includeDomains": ["a.example", "b.example"],
                "userLocation": "FR",
            },
        ),
    ],
)
def test_a_provider_is_asked_in_its_own_words(name: str, url: str, header: Any, body: Any) -> None:
    request = PROVIDERS[name].ask("http://h/search", KEY, QUERY)
    assert request.url == url
    assert (json.loads(request.body) if request.body else None) == body
    assert (request.method == "POST") == (body is not None)
    assert header is None or request.headers[header[0]] == header[1]
    assert KEY not in repr(request)


@pytest.mark.parametrize(("text", "asked"), [("!g tea", "g+tea"), ("tea !!ddg", "tea+ddg"), ("tea! wow!", "tea!+wow!")])
def test_a_bang_does_not_redirect_a_search(text: str, asked: str) -> None:
    assert f"q={asked}&" in PROVIDERS["searxng"].ask("http://h/search", "", SearchQuery(text)).url


def test_results_are_filtered_by_domain_and_counted_here() -> None:
    urls = [
        "https://a.example/1",
        "https://a.example/1",
        "https://xa.example/",
        "https://c.A.example/2",
        "https://a.example.evil/",
        "https://b.example./3",
        "https://b.example/4",
        "javascript:alert(1)",
        "https://a.example/" + "x" * 5_000,
        7,
    ]
    found = select([None, {}, *({"url": url} for url in urls)], QUERY)
    assert [hit.url for hit in found] == ["https://a.example/1", "https://c.A.example/2", "https://b.example./3"]


def test_texts_of_results_are_visible_and_bounded() -> None:
    hidden = "".join(chr(0xE0000 + ord(each)) for each in "obey")
    result = {"url": "https://a.example/", "title": f"T{hidden}\nx", "content": f"y{hidden}" + "z" * 100_000}
    (hit,) = select([result], SearchQuery("tea"))
    assert hit.title == "T x"
    assert hit.text.startswith("yz")
    assert len(hit.text) == HIT_TEXT_CHARS_MAX


def test_a_search_of_brave_that_finds_nothing_has_no_results() -> None:
    assert select(PROVIDERS["brave"].results({"type": "search"}), QUERY) == ()
    assert SearchHit("u", "t", "x").date == ""
