"""The outline of a JSON schema: its nested schemas, the values that they constrain, and the targets of references.

A table of keywords says where nested schemas are, for all drafts at once. Everything else (`const`, `enum`, `default`,
members that no draft has) is data, and a `$ref` in data has no meaning. Schemas are untrusted input: the code does not
recurse, so that no nesting exhausts the stack, and does not follow references out of the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.limits import SCHEMA_DEPTH_MAX

T = TypeVar("T")
Path = tuple[str, ...]


class InvalidSchema(Exception):
    """The description of a flaw in a schema. `path` leads from the root of the schema to the flaw."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"In context={path!r}, {message}")
        self.path = path
        self.message = message


class About(Enum):
    """The subject of a nested schema: the value that the schema constrains."""

    SAME = auto()
    """the value that the outer schema is about"""
    PART = auto()
    """a part of that value"""
    NOTHING = auto()
    """nothing, unless something refers to it"""


KEYWORDS: Mapping[str, About] = {
    **dict.fromkeys("allOf anyOf oneOf not if then else dependentSchemas dependencies".split(), About.SAME),
    **dict.fromkeys("properties patternProperties additionalProperties unevaluatedProperties".split(), About.PART),
    **dict.fromkeys("propertyNames items prefixItems additionalItems unevaluatedItems".split(), About.PART),
    **dict.fromkeys("contains contentSchema".split(), About.PART),
    **dict.fromkeys("$defs definitions".split(), About.NOTHING),
}
ONE_OF_THEM = ("properties", "prefixItems")
"""Of the schemas under each of these, one at most is about a part of a value."""
UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
BY_NAME = frozenset("properties patternProperties dependentSchemas dependencies $defs definitions".split())
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
ANCHORS = ("$anchor", "$dynamicAnchor")


@dataclass(frozen=True, slots=True)
class Place:
    """The root schema or a nested one: an object, or `true` or `false`.

    `keyword` is the one that it stands under, empty at the root. `depth` is 1 at the root, and one more with each
    schema around it. `level` is the number of values around the value that it constrains.
    """

    path: Path
    schema: Any
    keyword: str = ""
    depth: int = 1
    level: int = 0

    @property
    def keywords(self) -> Object:
        """The keywords of the schema; none for `true` and `false`."""
        return self.schema if isinstance(self.schema, dict) else {}

    def get(self, keyword: str, kind: type[T]) -> T:
        """The value of a keyword; an empty value of `kind` where the keyword is missing or has a value of another kind.
        Drafts that do not know a keyword let values of any kind pass."""
        value = self.keywords.get(keyword)
        return value if isinstance(value, kind) else kind()

    def within(self) -> Iterator[Place]:
        """The schemas that are nested directly in this one."""
        for keyword, value in self.keywords.items():
            about = KEYWORDS.get(keyword)
            if about is not None:
                level = {About.SAME: self.level, About.PART: self.level + 1, About.NOTHING: 0}[about]
                for steps, schema in _schemas_under(keyword, value):
                    yield Place((*self.path, keyword, *steps), schema, keyword, self.depth + 1, level)


def _schemas_under(keyword: str, value: object) -> Iterator[tuple[Path, Any]]:
    found: Iterable[tuple[Path, Any]]
    if isinstance(value, list):
        found = [((str(index),), schema) for index, schema in enumerate(value)]
    elif isinstance(value, dict) and keyword in BY_NAME:
        found = [((name,), schema) for name, schema in value.items()]
    else:
        found = [((), value)]
    return ((steps, schema) for steps, schema in found if isinstance(schema, dict | bool))


class Outline:
    """All places of one schema, in the order in which they are written."""

    def __init__(self, schema: Object, *, depth_max: int = SCHEMA_DEPTH_MAX, nodes_max: int | None = None) -> None:
        """InvalidSchema: schemas are nested deeper than `depth_max`, or there are more than `nodes_max`."""
        self.schema = schema
        self.root = Place((), schema)
        self.places: dict[Path, Place] = {}
        self._within: dict[Path, tuple[Place, ...]] = {}
        self._anchors: dict[str, Place] = {}
        waiting = [self.root]
        while waiting:
            place = waiting.pop()
            if place.depth > depth_max:
                raise InvalidSchema(place.path, f"schemas are nested deeper than {depth_max} levels.")
            self._note(place)
            waiting.extend(reversed(self._within[place.path]))
            if nodes_max is not None and (nodes := len(self.places) + len(waiting)) > nodes_max:
                raise InvalidSchema(
                    (), f"the schema has {nodes} schemas in each other; at most {nodes_max} are possible."
                )

    def _note(self, place: Place) -> None:
        self.places[place.path] = place
        self._within[place.path] = tuple(place.within())
        for keyword in ANCHORS:
            self._anchors[place.get(keyword, str)] = place

    @property
    def has_references(self) -> bool:
        return any(keyword in place.keywords for place in self.places.values() for keyword in REFERENCES)

    def target(self, reference: str) -> Place | None:
        """The target of a reference; None if it is not in this schema."""
        if not reference.startswith("#"):
            return None
        pointer = unquote(reference[1:])
        if pointer and not pointer.startswith("/"):
            return self._anchors.get(pointer)
        steps = pointer.split("/")[1:]
        return self.places.get(tuple(step.replace("~1", "/").replace("~0", "~") for step in steps))

    def loop(self) -> Place | None:
        """A schema that refers to itself for the same value, directly or by others, such as `{"$ref": "#"}`; None if
        there is none. A grammar for it would never end."""
        visits = _visits(self.places.values(), self._about_the_same)
        return next((place for visit, place in visits if visit is _Visit.AGAIN), None)

    @property
    def is_recursive(self) -> bool:
        """Whether a schema in it refers to a schema around itself."""
        return any(visit is _Visit.AGAIN for visit, _ in _visits([self.root], self._about_anything))

    def weight(self, own: Callable[[Place], int]) -> int:
        """The greatest cost of validating one value of an answer, wherever it is in the answer, if a place without its
        nested schemas costs `own`.

        A definition counts at each reference to it. A reference back to a schema around it counts 1, because the
        validator remembers the values that it has seen. Of the schemas for members by their names, only one is about
        each member. With `unevaluated...` the validator visits the schemas beside it a second time, so that a dozen of
        them in each other took a minute.
        """
        weights: dict[Path, int] = {}
        for visit, place in _visits([self.root], self._about_anything):
            if visit is _Visit.LEAVE:
                visits = 1 + sum(keyword in place.keywords for keyword in UNEVALUATED)
                same = sum(weights.get(each.path, 1) for each in self._about_the_same(place))
                weights[place.path] = own(place) + visits * same + self._weight_of_parts(place, weights)
        return weights[()]

    @property
    def unevaluated_nodes(self) -> int:
        """The number of schemas beside all `unevaluated...`, each counted as often as references lead to it: the
        validator makes a copy of each."""
        counts: dict[Path, int] = {}
        for visit, place in _visits(self.places.values(), self._about_the_same):
            if visit is _Visit.LEAVE:
                counts[place.path] = 1 + sum(counts.get(each.path, 1) for each in self._about_the_same(place))
        places = self.places.values()
        return sum(counts[place.path] for place in places if any(keyword in place.keywords for keyword in UNEVALUATED))

    def _weight_of_parts(self, place: Place, weights: Mapping[Path, int]) -> int:
        parts = [each for each in self._within[place.path] if KEYWORDS[each.keyword] is About.PART]
        alternatives = dict.fromkeys(ONE_OF_THEM, 0)
        weight = 0
        for each in parts:
            one = weights.get(each.path, 1)
            if each.keyword in ONE_OF_THEM:
                alternatives[each.keyword] = max(alternatives[each.keyword], one)
            else:
                weight += one
        return weight + sum(alternatives.values())

    def _referred_to(self, place: Place) -> Iterator[Place]:
        for keyword in REFERENCES:
            target = self.target(place.get(keyword, str))
            if target is not None:
                yield target

    def _about_the_same(self, place: Place) -> Iterator[Place]:
        yield from self._referred_to(place)
        yield from (each for each in self._within[place.path] if KEYWORDS[each.keyword] is About.SAME)

    def _about_anything(self, place: Place) -> Iterator[Place]:
        yield from self._referred_to(place)
        yield from (each for each in self._within[place.path] if KEYWORDS[each.keyword] is not About.NOTHING)


def move_schema(schema: Object, pointer: str) -> Object:
    """A copy of a schema for the place `pointer`, such as `#/$defs/name`, in another schema. Its references to places
    in itself begin there. `$id` and `$schema`, which only a root may have, are left out, and so are anchors: another
    schema beside this one may have the same."""
    copied: Object = loads(dumps({name: value for name, value in schema.items() if name not in ("$id", "$schema")}))
    outline = Outline(copied)
    for place in outline.places.values():
        for keyword in REFERENCES:
            reference = place.get(keyword, str)
            if (target := outline.target(reference)) is not None and not reference.startswith("#/"):
                place.keywords[keyword] = pointer + "".join(f"/{_escape(step)}" for step in target.path)
            elif reference.startswith("#/"):
                place.keywords[keyword] = pointer + reference[1:]
    for place in outline.places.values():
        for anchor in ANCHORS:
            place.keywords.pop(anchor, None)
    return copied


def _escape(step: str) -> str:
    """A step of a path, as a JSON pointer in a reference has it."""
    return quote(step.replace("~", "~0").replace("/", "~1"), safe="~$")


class _Visit(Enum):
    LEAVE = auto()
    """all places that can be reached from it have been visited"""
    AGAIN = auto()
    """it was reached again from itself: a cycle"""


def _visits(starts: Iterable[Place], following: Callable[[Place], Iterable[Place]]) -> Iterator[tuple[_Visit, Place]]:
    """Walks through places, depth first, entering each one once."""
    entered: set[Path] = set()
    left: set[Path] = set()
    for start in starts:
        waiting: list[tuple[Place, bool]] = [(start, False)]
        while waiting:
            place, is_done = waiting.pop()
            if is_done:
                left.add(place.path)
                yield _Visit.LEAVE, place
            elif place.path not in entered:
                entered.add(place.path)
                waiting.append((place, True))
                waiting.extend((each, False) for each in following(place))
            elif place.path not in left:
                yield _Visit.AGAIN, place
