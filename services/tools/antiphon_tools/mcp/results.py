"""The result of a call, as the model reads it: text with a bound, and images. No I/O.

Nothing that a result links to is fetched. A result over the bound keeps its beginning and its end, with a note between
them that tells the model to ask for less; peers found that models then narrow their next call.
"""

from __future__ import annotations

from typing import Any

from antiphon_core.jsons import Object, compact, dumps
from antiphon_core.ports.tools import Outcome, ToolResult

IMAGES_ITEMS_MAX = 16
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
HEAD_SHARE = 0.75
_INPUT_REQUIRED = "The tool asks its user a question, which is not supported here. It was not completed."


def read_result(result: Object, text_bytes: int) -> ToolResult:
    """Reads a result of `tools/call`. `text_bytes` is the most that the model reads of it."""
    if result.get("resultType") == "input_required":
        return ToolResult(Outcome.TOOL_ERROR, text=_INPUT_REQUIRED)
    content = result.get("content")
    texts: list[str] = []
    images: list[str] = []
    for block in content if isinstance(content, list) else ():
        text, image = _read_block(block, has_room=len(images) < IMAGES_ITEMS_MAX)
        if image:
            images.append(image)
        if text:
            texts.append(text)
    structured = result.get("structuredContent")
    given = compact(structured) if structured is not None else b""
    if given and not texts and not images:
        texts.append(given.decode())
    return ToolResult(
        Outcome.TOOL_ERROR if result.get("isError") is True else Outcome.OK,
        text=shorten("\n".join(texts), text_bytes),
        images=tuple(images),
        structured=given if len(given) <= text_bytes else b"",
    )


def shorten(text: str, bytes_max: int) -> str:
    """A text of at most `bytes_max` bytes and a note: three quarters of its beginning, and its end."""
    if len(text) <= bytes_max // 4:
        return text
    raw = text.encode(errors="replace")
    if len(raw) <= bytes_max:
        return text
    head = int(bytes_max * HEAD_SHARE)
    left_out = len(raw) - bytes_max
    note = f"\n\n[... {left_out} bytes of {len(raw)} are left out here. Ask for less, or for a part of it. ...]\n\n"
    return raw[:head].decode(errors="ignore") + note + raw[head - bytes_max :].decode(errors="ignore")


def _read_block(block: Any, *, has_room: bool) -> tuple[str, str]:
    """The text and the image of one block of content. Blocks that the model cannot read are named."""
    match block:
        case {"type": "text", "text": str(text)}:
            return text, ""
        case {"type": "image", "data": str(data), "mimeType": str(kind)}:
            if has_room and kind.lower() in IMAGE_TYPES:
                return "", f"data:{kind.lower()};base64,{data}"
            return _note("image", kind, data), ""
        case {"type": "audio", "data": str(data), "mimeType": str(kind)}:
            return _note("audio", kind, data), ""
        case {"type": "resource_link", "uri": str(uri)}:
            names = {name: block[name] for name in ("name", "description", "mimeType") if block.get(name)}
            return f"[link to a resource: {dumps({'uri': uri} | names).decode()}]", ""
        case {"type": "resource", "resource": {"text": str(text), **rest}}:
            return f"[resource {rest.get('uri', '')}]\n{text}", ""
        case {"type": "resource", "resource": {"blob": str(data), **rest}}:
            return _note("resource", f"{rest.get('mimeType', '')} {rest.get('uri', '')}", data), ""
    return "[content of an unknown type]", ""


def _note(what: str, kind: str, data: str) -> str:
    return f"[{what}, {kind[:200].strip()}, {len(data) * 3 // 4} bytes, not shown]"
