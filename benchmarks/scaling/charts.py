"""Draws charts as SVG: lines over numbers, bars over names. Equal figures give equal bytes, without a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

WIDTH, HEIGHT = 720, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 40, 48
_COLORS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700")
_TICKS = 5

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Axes:
    title: str
    across: str
    up: str
    most_up: float | None = None
    ticks_across: int = 5


def lines(axes: Axes, series: Mapping[str, Sequence[Point]]) -> str:
    """Draws a line for each series."""
    points = [point for each in series.values() for point in each]
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    top = axes.most_up or _top(max(y for _, y in points))
    plot = _Plot(axes, first, last, top)
    plot.grid([first + (last - first) * step / axes.ticks_across for step in range(axes.ticks_across + 1)])
    for color, (name, each) in zip(_COLORS, series.items(), strict=False):
        drawn = " ".join(f"{plot.x(x):.1f},{plot.y(min(y, top)):.1f}" for x, y in each)
        plot.parts.append(f'<polyline fill="none" stroke="{color}" stroke-width="2" points="{drawn}"/>')
        plot.legend(name, color)
    return plot.svg()


def bars(axes: Axes, groups: Mapping[str, Mapping[str, float]]) -> str:
    """Draws a group of bars for each name, with a bar for each member."""
    top = axes.most_up or _top(max(value for group in groups.values() for value in group.values()))
    plot = _Plot(axes, 0, len(groups), top)
    plot.grid([])
    members = list(next(iter(groups.values())))
    wide = (plot.x(1) - plot.x(0)) * 0.8 / len(members)
    for number, (name, group) in enumerate(groups.items()):
        begin = plot.x(number) + wide * len(members) * 0.125
        for place, member in enumerate(members):
            high = HEIGHT - _BOTTOM - plot.y(min(group[member], top))
            plot.parts.append(
                f'<rect x="{begin + place * wide:.1f}" y="{HEIGHT - _BOTTOM - high:.1f}" width="{wide * 0.9:.1f}" '
                f'height="{high:.1f}" fill="{_COLORS[place]}"/>'
            )
        plot.text(plot.x(number + 0.5), HEIGHT - _BOTTOM + 16, name)
    for place, member in enumerate(members):
        plot.legend(member, _COLORS[place])
    return plot.svg()


class _Plot:
    def __init__(self, axes: Axes, first: float, last: float, top: float) -> None:
        self.parts: list[str] = []
        self._axes, self._first, self._last, self._top = axes, first, last, top
        self._legends = 0

    def x(self, value: float) -> float:
        return _LEFT + (value - self._first) / (self._last - self._first) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - value / self._top * (HEIGHT - _TOP - _BOTTOM)

    def grid(self, across: Sequence[float]) -> None:
        for step in range(_TICKS + 1):
            value = self._top * step / _TICKS
            y = self.y(value)
            self.parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH - _RIGHT}" y2="{y:.1f}" stroke="#d0d7de"/>')
            self.text(_LEFT - 6, y + 4, _short(value), anchor="end")
        for value in across:
            self.text(self.x(value), HEIGHT - _BOTTOM + 16, _short(value))
        self.text((WIDTH + _LEFT) / 2, HEIGHT - 10, self._axes.across)
        self.text(_LEFT, _TOP - 22, f"{self._axes.title} ({self._axes.up})", anchor="start", size=14)

    def legend(self, name: str, color: str) -> None:
        x = _LEFT + 8 + self._legends * 170
        self._legends += 1
        self.parts.append(f'<rect x="{x}" y="{_TOP - 14}" width="10" height="10" fill="{color}"/>')
        self.text(x + 14, _TOP - 5, name, anchor="start")

    def text(self, x: float, y: float, text: str, *, anchor: str = "middle", size: int = 11) -> None:
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def svg(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            f'fill="#1f2328"><rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
        )
        return "\n".join([head, *self.parts, "</svg>", ""])


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def _top(most: float) -> float:
    """Returns the end of an axis whose ticks are round numbers."""
    if most <= 0:
        return float(_TICKS)
    size = 10.0 ** floor(log10(most / _TICKS))
    return next(_TICKS * size * step for step in (1, 2, 2.5, 4, 5, 10) if _TICKS * size * step >= most)
