from __future__ import annotations

import json

from antiphon_core.rpc.channels import options
from antiphon_core.rpc.methods import STORE


def test_the_retry_policy_leaves_out_methods_that_are_not_repeatable() -> None:
    config = json.loads(dict(options(STORE, checks_health=False))["grpc.service_config"])
    (policy,) = config["methodConfig"]
    repeated = {f"/{each['service']}/{each['method']}" for each in policy["name"]}
    left_out = {method.name for method in STORE.methods.values() if method.path not in repeated}
    assert left_out == {"ClaimJob", "TakeQuota"}
