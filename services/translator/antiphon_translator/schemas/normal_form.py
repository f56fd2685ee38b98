"""The normal form of a schema: the same values, in the keywords that grammar engines read. Only an optional property
that is `false` becomes one that they permit.

    true                                          {}
    false: a member                               left out
    false: an optional property                   left out: the answer is checked against the schema
    items false                                   maxItems
    allOf, keywords beside $ref, an anyOf of one  one schema (merging.py)
    keywords beside anyOf and oneOf               within each member
    the bound 1.5 of an integer                   2
    $ref to the root, to an anchor, to any place  $ref to a definition

Guides are made of the normal form. Wherever the client or the model sees a schema, it is not in normal form. A schema
without any of these is its own normal form, as it was written.

A reference with other keywords beside it is replaced by what it refers to, once on each way down, so that recursion
ends. Merging stops when WORK_MAX is spent: a few hundred bytes of references could be written out to gigabytes. What
is not merged keeps its `allOf`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import chain, count
from math import ceil, floor
from typing import Any

from antiphon_core.jsons import Object
from antiphon_core.limits import SCHEMA_DEPTH_MAX
from antiphon_translator.schemas import contradictions
from antiphon_translator.schemas.boolean_schemas import NEVER, PERMISSIONS
from antiphon_translator.schemas.contradictions import contradicts_itself, is_never, is_permitted, types_of
from antiphon_translator.schemas.merging import CONSTRAINTS, CannotMerge, has_constraints, merge
from antiphon_translator.schemas.schema_outline import ANCHORS, BY_NAME, KEYWORDS, REFERENCES, Outline, Path, Place

WORK_MAX = 64_000
"""The keywords and names that are written before merging stops: 100 ms, which block the process."""
SCHEMA_WORK = 16
"""The work of a schema beside its names."""
DEPTH_MAX = 2 * SCHEMA_DEPTH_MAX
"""The nesting at which references are no longer replaced."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_DEFINITIONS = ("$defs", "definitions")
_OF_ROOTS = ("$id", "$schema")
_NAMING = frozenset([*_DEFINITIONS, *ANCHORS, *_OF_ROOTS])
_CHOICES = ("anyOf", "oneOf")


def of(outline: Outline) -> Object:
    """The normal form of a schema. It is the schema itself where nothing was to change."""
    normal = _Writer(outline).write()
    return outline.schema if normal == outline.schema else normal


def require_possible(outline: Outline) -> None:
    """InvalidSchema: no value matches the schema, or a schema in it, as it is written or in its normal form."""
    contradictions.require(outline)
    normal = of(outline)
    if normal is not outline.schema:
        contradictions.require(Outline(normal, depth_max=DEPTH_MAX + SCHEMA_DEPTH_MAX))


class _Writer:
    """Writes the normal form of one schema. In its methods, `seen` are the places that were merged into the schemas
    around, and `depth` is the nesting, with the references that were replaced."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._names: dict[Path, str] = {}
        self._taken: set[str] = set()
        self._waiting: list[Path] = []
        self._work = 0

    def write(self) -> Object:
        root = self._schema(self._outline.schema, frozenset(), 1)
        kept = {name: value for name, value in self._outline.schema.items() if name in _OF_ROOTS}
        definitions: Object = {}
        while self._waiting:
            path = self._waiting.pop(0)
            definitions[self._names[path]] = self._schema(self._outline.places[path].schema, frozenset(), 1)
        return kept | root | ({"$defs": definitions} if definitions else {})

    def _schema(self, schema: Any, seen: frozenset[Path], depth: int) -> Object:
        """The normal form of one schema; NEVER if nothing matches it."""
        if isinstance(schema, bool):
            return {} if schema else NEVER
        if seen:
            self._work += SCHEMA_WORK
        flat, seen = self._flat(schema, seen, depth)
        return _normalize({name: self._keyword(name, value, seen, depth + 1) for name, value in flat.items()})

    def _keyword(self, keyword: str, value: Any, seen: frozenset[Path], depth: int) -> Any:
        if keyword == "$ref":
            return self._reference(value)
        if keyword not in KEYWORDS or (keyword in PERMISSIONS and isinstance(value, bool)):
            return value
        if isinstance(value, list):
            return [self._write_nested(each, seen, depth) for each in value]
        if keyword in BY_NAME and isinstance(value, dict):
            return {name: self._write_nested(each, seen, depth) for name, each in value.items()}
        nested = self._write_nested(value, seen, depth)
        return _with_written_types(nested) if keyword in contradictions.CONDITIONS else nested

    def _write_nested(self, schema: Any, seen: frozenset[Path], depth: int) -> Any:
        return self._schema(schema, seen, depth) if isinstance(schema, dict | bool) else schema

    def _reference(self, reference: Any) -> Any:
        """A reference to the definition of its target."""
        target = self._outline.target(reference) if isinstance(reference, str) else None
        if target is None:
            return reference
        if target.path not in self._names:
            self._names[target.path] = self._name(target.path)
            self._waiting.append(target.path)
        return f"#/$defs/{self._names[target.path]}"

    def _name(self, path: Path) -> str:
        """A name for a definition that no other one has, without characters that engines do not read in a pointer."""
        is_definition = len(path) == 2 and path[0] in _DEFINITIONS and _PLAIN_NAME.fullmatch(path[1])
        first = path[1] if is_definition else "schema"
        names = chain([first], (f"{first}-{number}" for number in count(len(self._taken) + 1)))
        name = next(name for name in names if name not in self._taken)
        self._taken.add(name)
        return name

    def _flat(self, schema: Object, seen: frozenset[Path], depth: int) -> tuple[Object, frozenset[Path]]:
        """A schema with those that apply to the same value merged into it, as far as possible."""
        own, parts = _parts(schema)
        if not has_constraints(own) and len(parts) == 1 and isinstance(parts[0], dict) and "$ref" in parts[0]:
            return own | parts[0], seen
        left: list[Object] = []
        for part in parts:
            piece, seen_within = self._piece(part, seen, depth)
            self._work += SCHEMA_WORK + len(own.get("properties", ()))
            try:
                if self._work > WORK_MAX:
                    raise CannotMerge
                own, seen = merge(own, piece), seen_within
            except CannotMerge:
                left.append(part if isinstance(part, dict) and set(part) == {"$ref"} else piece)
        if left:
            return own | {"allOf": [*own.get("allOf", []), *left]}, seen
        return self._distribute(own, seen, depth)

    def _distribute(self, own: Object, seen: frozenset[Path], depth: int) -> tuple[Object, frozenset[Path]]:
        """A schema with its keywords beside an `anyOf` or a `oneOf` merged into each of the members, because grammars
        read the members only. Members that contradict these keywords are left out."""
        keyword = next((each for each in _CHOICES if isinstance(own.get(each), list)), "")
        beside = {name: value for name, value in own.items() if name in CONSTRAINTS and name != keyword}
        if not keyword or not beside:
            return own, seen
        members: list[Object] = []
        for member in own[keyword]:
            self._work += SCHEMA_WORK + len(beside.get("properties", ()))
            piece, seen_within = self._piece(member, seen, depth)
            try:
                if self._work > WORK_MAX:
                    raise CannotMerge
                members.append(merge(beside, piece))
            except CannotMerge:
                return own, seen
            seen |= seen_within
        possible = [each for each in members if not _is_impossible(each)] or members[:1]
        remarks = {name: value for name, value in own.items() if name not in CONSTRAINTS}
        return remarks | (possible[0] if len(possible) == 1 else {keyword: possible}), seen

    def _piece(self, part: Any, seen: frozenset[Path], depth: int) -> tuple[Object, frozenset[Path]]:
        """A schema that applies to the same value as another one, or the schema that it refers to, in flat form."""
        if is_never(part):
            return NEVER, seen
        if not isinstance(part, dict):
            return {}, seen
        if set(part) == {"$ref"}:
            target = self._outline.target(part["$ref"]) if isinstance(part["$ref"], str) else None
            if target is None or target.path in seen or self._work > WORK_MAX or depth >= DEPTH_MAX:
                return part, seen
            self._work += SCHEMA_WORK
            return self._piece(target.schema, seen | {target.path}, depth + 1)
        return self._flat(part, seen, depth)


def _is_impossible(schema: Object) -> bool:
    """Whether the keywords of a schema contradict each other for all of its types, of which there is one, or none."""
    return "type" in schema and len(types_of(Place((), schema))) < 2 and contradicts_itself(schema)


def _parts(schema: Object) -> tuple[Object, list[Any]]:
    """The keywords of a schema by themselves, and the schemas that apply to the same value."""
    parts = [{"$ref": schema[keyword]} for keyword in REFERENCES if keyword in schema]
    parts += schema.get("allOf", []) if isinstance(schema.get("allOf"), list) else []
    taken = {*REFERENCES, "allOf", *_NAMING}
    for keyword in _CHOICES:
        members = schema.get(keyword)
        possible = [each for each in members if not is_never(each)] if isinstance(members, list) else []
        if len(possible) == 1:
            parts.append(possible[0])
            taken.add(keyword)
        elif keyword == "anyOf" and (True in possible or {} in possible):
            taken.add(keyword)
    return {name: value for name, value in schema.items() if name not in taken}, parts


def _with_written_types(schema: Any) -> Any:
    """A condition in which schemas without any type are NEVER. Elsewhere such a schema is a contradiction, which is
    reported as it is."""
    if isinstance(schema, list):
        return list(map(_with_written_types, schema))
    if not isinstance(schema, dict):
        return schema
    is_empty = schema.get("type") == []
    return NEVER if is_empty else {name: _with_written_types(each) for name, each in schema.items()}


def _normalize(schema: Object) -> Object:
    """A schema whose nested schemas are in normal form, without those that nothing matches."""
    for keyword, tidy in _TIDIES.items():
        if keyword in schema:
            schema = tidy(schema)
    return NEVER if is_never(schema) else schema


def _without(schema: Object, keyword: str) -> Object:
    return {name: value for name, value in schema.items() if name != keyword}


def _tidy_properties(schema: Object) -> Object:
    required = schema.get("required", [])
    properties = schema["properties"]
    possible = {name: each for name, each in properties.items() if not is_never(each) or name in required}
    return schema | {"properties": possible}


def _tidy_choice(keyword: str) -> Callable[[Object], Object]:
    def tidy(schema: Object) -> Object:
        possible = [each for each in schema[keyword] if not is_never(each)]
        if not possible:
            return NEVER
        if keyword == "anyOf" and not all(map(has_constraints, possible)):
            return _without(schema, keyword)
        return schema | {keyword: possible}

    return tidy


def _tidy_prefix(schema: Object) -> Object:
    """An array ends before an element that nothing matches."""
    possible = schema["prefixItems"] if isinstance(schema["prefixItems"], list) else []
    end = next((index for index, each in enumerate(possible) if is_never(each)), None)
    return schema if end is None else _end_array(schema | {"prefixItems": possible[:end]}, end)


def _tidy_items(schema: Object) -> Object:
    """No element follows where nothing matches the elements."""
    if not is_never(schema["items"]):
        return schema
    first = len(schema.get("prefixItems", []))
    return _end_array(schema, first)


def _end_array(schema: Object, most: int) -> Object:
    """A schema of arrays of `most` elements, which `prefixItems` describes."""
    ended = _without(schema, "items") | {"maxItems": min(most, schema.get("maxItems", most))}
    return ended if most else _without(ended, "prefixItems") | {"items": {}}


def _tidy_not(schema: Object) -> Object:
    return _without(schema, "not") if is_never(schema["not"]) else schema


def _tidy_enum(schema: Object) -> Object:
    """Grammars read neither a `type` nor bounds beside an `enum`."""
    place = Place((), schema)
    permitted = [value for value in place.get("enum", list) if is_permitted(place, value)]
    return schema | {"enum": permitted} if permitted != schema["enum"] else schema


def _tidy_bound(keyword: str, whole: Callable[[float], int]) -> Callable[[Object], Object]:
    """Converters of grammars read the bounds of integers digit by digit."""

    def tidy(schema: Object) -> Object:
        bound = schema[keyword]
        if schema.get("type") != "integer" or not isinstance(bound, float):
            return schema
        return schema | {keyword: whole(bound)}

    return tidy


_TIDIES: Mapping[str, Callable[[Object], Object]] = {
    "properties": _tidy_properties,
    **{keyword: _tidy_choice(keyword) for keyword in _CHOICES},
    "prefixItems": _tidy_prefix,
    "items": _tidy_items,
    "not": _tidy_not,
    "enum": _tidy_enum,
    "minimum": _tidy_bound("minimum", ceil),
    "maximum": _tidy_bound("maximum", floor),
    "exclusiveMinimum": _tidy_bound("exclusiveMinimum", floor),
    "exclusiveMaximum": _tidy_bound("exclusiveMaximum", ceil),
}
"""The change to a schema with a keyword whose nested schemas are in normal form."""
