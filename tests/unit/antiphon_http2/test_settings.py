from __future__ import annotations

import pytest
from hyperframe.frame import SettingsFrame

from antiphon_http2.frames import ConnectionFault
from antiphon_http2.settings import check_settings, client_settings
from antiphon_http2.statuses import ErrorCode


def test_client_settings_disable_push_and_announce_the_window() -> None:
    settings = client_settings(100_000)
    assert settings[SettingsFrame.ENABLE_PUSH] == 0
    assert settings[SettingsFrame.INITIAL_WINDOW_SIZE] == 100_000


def test_unknclient_settings_and_those_within_limits_are_accepted() -> None:
    check_settings({})
    check_settings({0xF000: 1, SettingsFrame.INITIAL_WINDOW_SIZE: 2**31 - 1, SettingsFrame.MAX_FRAME_SIZE: 2**24 - 1})


@pytest.mark.parametrize(
    ("setting", "value", "code"),
    [
        (SettingsFrame.INITIAL_WINDOW_SIZE, 2**31, ErrorCode.FLOW_CONTROL_ERROR),
        (SettingsFrame.MAX_FRAME_SIZE, 16_383, ErrorCode.PROTOCOL_ERROR),
        (SettingsFrame.MAX_FRAME_SIZE, 2**24, ErrorCode.PROTOCOL_ERROR),
        (SettingsFrame.ENABLE_PUSH, 2, ErrorCode.PROTOCOL_ERROR),
    ],
)
def test_setting_beyond_its_limits_is_a_fault(setting: int, value: int, code: ErrorCode) -> None:
    with pytest.raises(ConnectionFault) as caught:
        check_settings({setting: value})
    assert caught.value.code == code
