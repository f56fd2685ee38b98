"""Small images of 3x2 pixels in every format, written by real encoders (Pillow 13), and PNGs of any size."""

from __future__ import annotations

import struct
import zlib
from base64 import b64decode, b64encode

from antiphon_core.jsons import Object

JPEG = b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAP///////////////////////////////////////////////////////////////////////////////"
    "///////2wBDAf/////////////////////////////////////////////////////////////////////////////////////"
    "/wAARCAACAAMDASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAH/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFQEBAQAAAAAAAAAAAAAAAAAAAQL"
    "/xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIRAxEAPwCABb//2Q=="
)
GIF = b64decode("R0lGODdhAwACAIEAAMgeKAAAAAAAAAAAACwAAAAAAwACAAAIBgABCBwYEAA7")
WEBP_LOSSY = b64decode("UklGRi4AAABXRUJQVlA4ICIAAABwAQCdASoDAAIADMDOJaACdAFAAAD+2iYLtH4u7EcZJAAA")
WEBP_LOSSLESS = b64decode("UklGRh4AAABXRUJQVlA4TBEAAAAvAkAAAAdQjyIXpf+BiOh/AAA=")
WEBP_EXTENDED = b64decode(
    "UklGRkoAAABXRUJQVlA4WAoAAAAIAAAAAgAAAQAAVlA4ICIAAABwAQCdASoDAAIADMDOJaACdAFAAAD+2iYLtH4u7EcZJAAARVhJRgIAAABhYg=="
)


def png(width: int = 3, height: int = 2) -> bytes:
    """Returns a grey PNG. If its size is too large to decode, not all pixels are included."""
    rows = b"".join(b"\0" + b"\x80" * width for _ in range(height)) if width * height < 1_000_000 else b""
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in (
            (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
            (b"IDAT", zlib.compress(rows)),
            (b"IEND", b""),
        )
    )


PNG = png()


def data_url(content: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{b64encode(content).decode()}"


def image_part(url: str | None = None, **members: object) -> Object:
    """Returns an input_image part, by default with a small PNG."""
    return {"type": "input_image", "image_url": data_url(PNG) if url is None else url} | members


def user(*parts: str | Object) -> Object:
    """Returns a user's message with these parts or texts."""
    content = [{"type": "input_text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"type": "message", "role": "user", "content": content}
