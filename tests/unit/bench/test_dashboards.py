from __future__ import annotations

from xml.etree import ElementTree as ET

from benchmarks.dashboards import COLUMNS, labelled, sheet
from benchmarks.scaling.charts import Axes, lines


def test_a_legend_has_the_values_of_its_labels() -> None:
    assert labelled("p95 {{model}} {{none}}", {"model": "m"}) == "p95 m"


def test_charts_of_a_sheet_have_distinct_positions() -> None:
    chart = lines(Axes("Turns", "seconds", "count"), {"all": [(0, 0), (10, 3)]})
    root = ET.fromstring(sheet([chart] * (COLUMNS + 1)))
    places = [(each.get("x"), each.get("y")) for each in root if each.tag.endswith("svg")]
    assert len(set(places)) == COLUMNS + 1
    assert places[0] == ("0", "0")
