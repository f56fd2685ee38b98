"""The document as one HTML page, without scripts and external resources."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from html import escape

import orjson

from antiphon_core.jsons import Object
from antiphon_edge.openapi.document import document
from antiphon_edge.operations.forms import PATH

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
details { border: 1px solid #8886; border-radius: 6px; margin: .4rem 0; padding: .3rem .7rem; }
summary { cursor: pointer; } summary b { display: inline-block; width: 4.5rem; }
table { border-collapse: collapse; } td { padding: .1rem 1rem .1rem 0; vertical-align: top; }
pre { overflow-x: auto; background: #8882; padding: .6rem; border-radius: 6px; }
:root { color-scheme: light dark; }
"""


@cache
def page() -> str:
    """The page, generated from the document."""
    shown = document()
    operations = "\n".join(
        _operation(path, method, operation)
        for path, methods in shown["paths"].items()
        for method, operation in methods.items()
    )
    schemas = "\n".join(_schema(name, schema) for name, schema in sorted(shown["components"]["schemas"].items()))
    info = shown["info"]
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{escape(info["title"])}</title>
<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>
<body>
<h1>{escape(info["title"])} {escape(info["version"])}</h1>
<p>{escape(info["description"])}</p>
<p>For programs: <a href="openapi.json">openapi.json</a></p>
<h2>Operations</h2>
{operations}
<h2>Schemas</h2>
{schemas}
</body>
</html>
"""


def _operation(path: str, method: str, operation: Object) -> str:
    body, description = operation.get("requestBody"), operation.get("description")
    return f"""<details id="{escape(operation["operationId"])}">
<summary><b>{method.upper()}</b> <code>{escape(path)}</code> {escape(operation["summary"])}</summary>
{f"<p>{escape(description)}</p>" if description else ""}
{_table("Parameters", map(_parameter, operation.get("parameters", [])))}
{_table("Body", [_contents(body)] if body else [])}
{_table("Answers", (f"<td>{status}</td>{_answer(answer)}" for status, answer in operation["responses"].items()))}
</details>"""


def _table(title: str, rows: Iterable[str]) -> str:
    lines = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<h4>{title}</h4><table>{lines}</table>" if lines else ""


def _parameter(parameter: Object) -> str:
    cells = (parameter["name"], parameter["in"], _as_json(parameter["schema"]), parameter["description"])
    return "".join(f"<td>{escape(each)}</td>" for each in cells)


def _answer(answer: Object) -> str:
    return f"<td>{escape(answer['description'])}</td>{_contents(answer)}"


def _contents(holder: Object) -> str:
    """Table cells with the schema of each media type."""
    return "".join(
        f"<td>{_link(media['schema'])} {escape(kind)}</td>" for kind, media in holder.get("content", {}).items()
    )


def _link(schema: Object) -> str:
    name = schema.get("$ref", "").removeprefix(PATH)
    return f'<a href="#{escape(name)}">{escape(name)}</a>' if name else ""


def _schema(name: str, schema: Object) -> str:
    indented = orjson.dumps(schema, option=orjson.OPT_INDENT_2).decode()
    return f'<details id="{escape(name)}"><summary>{escape(name)}</summary><pre>{escape(indented)}</pre></details>'


def _as_json(value: object) -> str:
    return orjson.dumps(value).decode()
