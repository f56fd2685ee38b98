"""SETTINGS: those of a client and of a server, and the check of a peer's."""

from __future__ import annotations

from collections.abc import Mapping

from hyperframe.frame import SettingsFrame

from antiphon_http2.frames import FRAME_BYTES_MAX, WINDOW_BYTES_MAX, ConnectionFault
from antiphon_http2.limits import ANSWER_HEADERS_BYTES_MAX, REQUEST_METADATA_BYTES_MAX, REQUEST_WINDOW_BYTES
from antiphon_http2.statuses import ErrorCode


def client_settings(stream_window_bytes: int) -> dict[int, int]:
    return {
        SettingsFrame.ENABLE_PUSH: 0,
        SettingsFrame.INITIAL_WINDOW_SIZE: stream_window_bytes,
        SettingsFrame.MAX_HEADER_LIST_SIZE: ANSWER_HEADERS_BYTES_MAX,
    }


def server_settings(streams_max: int) -> dict[int, int]:
    return {
        SettingsFrame.MAX_CONCURRENT_STREAMS: streams_max,
        SettingsFrame.INITIAL_WINDOW_SIZE: REQUEST_WINDOW_BYTES,
        SettingsFrame.MAX_HEADER_LIST_SIZE: REQUEST_METADATA_BYTES_MAX,
    }


def check_settings(settings: Mapping[int, int]) -> None:
    """Checks the settings of a peer. ConnectionFault: RFC 9113, section 6.5.2, does not allow a value."""
    if settings.get(SettingsFrame.INITIAL_WINDOW_SIZE, 0) > WINDOW_BYTES_MAX:
        raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "The initial window is too large.")
    frame_bytes_max = settings.get(SettingsFrame.MAX_FRAME_SIZE, FRAME_BYTES_MAX)
    if not FRAME_BYTES_MAX <= frame_bytes_max < 2**24:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"Frames of at most {frame_bytes_max} bytes are not allowed.")
    if settings.get(SettingsFrame.ENABLE_PUSH, 0) not in (0, 1):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is neither 0 nor 1.")
