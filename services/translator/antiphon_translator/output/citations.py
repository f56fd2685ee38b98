"""Citations in an answer: the model cites a result of a search by its number in brackets, such as [1] or 【1】.

The text stays as it is; each marker becomes a `url_citation` with its place. A number that no search of this response
has is text. A model that cites nothing gets no citations, rather than invented ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from antiphon_core.jsons import Object
from antiphon_core.request.server_items import SEARCH

CITATIONS_MAX = 256
MARKERS_MAX = 4_096
"""Markers of a text that are looked at. Most are text in long answers with code, where `[1]` is an index; the search
runs on the event loop, and took a second in a text of 8 MB."""
_MARKER = re.compile(r"\[(\d{1,4})\]|【(\d{1,4})(?:†[^【】]{0,64})?】")

Cite = Callable[[str], Sequence[Object]]


def of_output(output: Collection[Any]) -> Cite | None:
    """The function that finds the citations in a text. None: no search of this response has found anything."""
    results = {
        result["number"]: result
        for item in output
        if item.get("type") == SEARCH
        for result in item.get("results") or ()
        if isinstance(result.get("number"), int)
    }
    return partial(_citations, results) if results else None


def _citations(results: Mapping[int, Object], text: str) -> Sequence[Object]:
    found = list[Object]()
    for marker in islice(_MARKER.finditer(text), MARKERS_MAX):
        result = results.get(int(marker[1] or marker[2]))
        if result is None:
            continue
        place = {"start_index": marker.start(), "end_index": marker.end()}
        found.append({"type": "url_citation", **place, "url": result["url"], "title": result["title"]})
        if len(found) == CITATIONS_MAX:
            break
    return found
