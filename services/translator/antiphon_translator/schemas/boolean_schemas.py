"""Boolean schemas of functions, written as objects.

Templates of models and converters of chat servers look into each property (`field.type`, `'enum' in field`), and some
fail on `true`. `{}` and `{"not": {}}` say the same.
"""

from __future__ import annotations

import re
from typing import Any

from antiphon_core.jsons import Object, dumps
from antiphon_translator.schemas.schema_outline import BY_NAME, KEYWORDS

PERMISSIONS = frozenset("additionalProperties unevaluatedProperties unevaluatedItems additionalItems".split())
"""The keywords that all readers expect to be `true` or `false`."""
NEVER: Object = {"not": {}}

_MAY_HAVE_SOME = re.compile(rb'(?<!"additionalProperties"):(?:true|false)|[\[,](?:true|false)')


def written_out(schema: Object) -> Object:
    """A schema without boolean ones; the same object if it has none. Most schemas are only searched for the words."""
    if not _MAY_HAVE_SOME.search(dumps(schema)):
        return schema
    written = _write(schema)
    return schema if written == schema else written


def _write(schema: Any) -> Any:
    if isinstance(schema, bool):
        return {} if schema else NEVER
    if not isinstance(schema, dict):
        return schema
    return {keyword: _keyword(keyword, value) for keyword, value in schema.items()}


def _keyword(keyword: str, value: Any) -> Any:
    if keyword not in KEYWORDS or (keyword in PERMISSIONS and isinstance(value, bool)):
        return value
    if isinstance(value, list):
        return list(map(_write, value))
    if keyword in BY_NAME and isinstance(value, dict):
        return {name: _write(each) for name, each in value.items()}
    return _write(value)
