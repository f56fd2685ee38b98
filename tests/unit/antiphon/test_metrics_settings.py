from __future__ import annotations

import pytest

from antiphon.metrics_settings import MetricsSettings
from antiphon_core.config import SettingsError


def test_metrics_are_off_by_default() -> None:
    settings = MetricsSettings()
    assert (settings.host, settings.port, settings.open, settings.tenants) == ("127.0.0.1", None, False, 0)


@pytest.mark.parametrize("tenants", [-1, 1001])
def test_the_number_of_tenants_has_bounds(tenants: int) -> None:
    with pytest.raises(SettingsError, match="ANTIPHON_METRICS_TENANTS must be 0 to 1000"):
        MetricsSettings(tenants=tenants)
