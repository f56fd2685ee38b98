"""References between objects: names, ports, labels, Secrets, settings and times fit together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from antiphon import cli, settings
from antiphon_translator.models import profiles
from tests.support import nim_operator, pod_security
from tests.support.cases import in_one_test
from tests.support.manifests import K8S, Manifest, everything, of_kind, pod_templates

OURS = ("edge", "worker", "translator", "store", "tools")
_PEERS = [f"ANTIPHON_{target}_{peer}" for target in ("EDGE", "WORKER") for peer in ("STORE", "TRANSLATOR", "TOOLS")]
URL = "postgresql://database/antiphon"
"""Stands for the URL in the Secret antiphon-store."""
SECRETS = {  # created by hand, by a certificate, or by the Operator's guide
    "antiphon-tokens",
    "antiphon-api-keys",
    "antiphon-sealing-keys",
    "antiphon-store",
    "antiphon-encryption-keys",
    "antiphon-cache-salt-keys",
    "antiphon-tool-servers",
}


EACH_VARIANT = in_one_test("objects", everything)


@EACH_VARIANT
def test_pods_meet_the_restricted_security_standard(objects: list[Manifest]) -> None:
    assert not [f"{name}: {fault}" for name, pod in _pods(objects) for fault in pod_security.faults(pod["spec"])]


@EACH_VARIANT
def test_root_file_systems_of_our_pods_are_read_only_and_no_pod_has_a_token(objects: list[Manifest]) -> None:
    for name, pod in _pods(objects):
        if name in OURS:
            assert pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
            assert pod["spec"]["automountServiceAccountToken"] is False
            assert pod["spec"]["enableServiceLinks"] is False  # service links would set ANTIPHON_..._PORT


@EACH_VARIANT
def test_no_service_has_a_name_that_service_links_turn_into_a_setting(objects: list[Manifest]) -> None:
    """The NIM Operator's pods have service links, and a NIMService has a Service of its name."""
    services = of_kind(objects, "Service", "NIMService")
    assert not [one["metadata"]["name"] for one in services if one["metadata"]["name"].startswith("antiphon")]


@EACH_VARIANT
def test_settings_of_every_config_map_exist(objects: list[Manifest]) -> None:
    for _, values in _settings(objects):
        settings.load(environ=values, flags={}, file=None)


@EACH_VARIANT
def test_model_profiles_can_be_loaded(objects: list[Manifest], tmp_path: Path) -> None:
    folder = Path(mkdtemp(dir=tmp_path))
    for config in of_kind(objects, "ConfigMap"):
        if config["metadata"]["name"].startswith("antiphon-profiles"):
            for name, text in config.get("data", {}).items():
                (folder / name).write_text(text, encoding="utf-8")
    assert len(profiles.load_directory(folder)) == len(list(folder.iterdir()))


@EACH_VARIANT
def test_init_container_of_triton_writes_the_model_that_the_profile_names(
    objects: list[Manifest], tmp_path: Path
) -> None:
    out, engines = Path(mkdtemp(dir=tmp_path)), [pod for name, pod in _pods(objects) if name == "triton"]
    made = [each for pod in engines for each in pod["spec"].get("initContainers", [])]
    for container in made:
        arguments = [str(out) if each == "/repository" else each for each in container["args"]]
        assert cli.main(arguments) == 0
        texts = [text for config in of_kind(objects, "ConfigMap") for text in config.get("data", {}).values()]
        assert [model for model in out.iterdir() if f'triton_model = "{model.name}"' in "".join(texts)]


@EACH_VARIANT
def test_the_grace_period_of_a_pod_exceeds_its_pause_and_drain(objects: list[Manifest]) -> None:
    values = dict(_settings(objects))
    for name, pod in _pods(objects):
        if name in OURS:
            loaded = settings.load(environ=values[name], flags={}, file=None)
            (container,) = pod["spec"]["containers"]
            pause = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
            assert pod["spec"]["terminationGracePeriodSeconds"] > pause + getattr(loaded, name).drain_s


@EACH_VARIANT
def test_services_lead_to_ports_of_their_pods(objects: list[Manifest]) -> None:
    for service in of_kind(objects, "Service"):
        ports = {port["name"] for pod in _selected(objects, service["spec"]["selector"]) for port in _ports(pod)}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports, service["metadata"]["name"]


@EACH_VARIANT
def test_peer_addresses_name_existing_headless_services(objects: list[Manifest]) -> None:
    headless = {
        f"dns:///{service['metadata']['name']}:{port['port']}"
        for service in of_kind(objects, "Service")
        if service["spec"].get("clusterIP") == "None"
        for port in service["spec"]["ports"]
    }
    for _, values in _settings(objects):
        targets = {values.get(name) for name in _PEERS}
        assert targets - {None} <= headless


@EACH_VARIANT
def test_network_policies_permit_exactly_the_calls_between_services(objects: list[Manifest]) -> None:
    calls = {(caller, "store", 50051) for caller in ("edge", "worker")}
    calls |= {(caller, "translator", 50052) for caller in ("edge", "worker")}
    if any(name == "tools" for name, _ in _pods(objects)):
        calls |= {(caller, "tools", 50053) for caller in ("edge", "worker")}
    between = {edge for edge in _egress(objects) if edge[1] in OURS}
    assert between == calls
    for caller, called, _ in calls:
        assert caller in set(_admitted(objects, called))


@EACH_VARIANT
def test_only_services_that_check_addresses_may_reach_the_internet(objects: list[Manifest]) -> None:
    """The translator fetches images, the tools service calls tool servers; neither reaches a private network."""
    blocks = {
        (caller, block["cidr"], tuple(block.get("except", ())))
        for policy in of_kind(objects, "NetworkPolicy")
        for caller in _callers(policy)
        for rule in policy["spec"].get("egress", [])
        for peer in rule.get("to", [])
        if (block := peer.get("ipBlock", {"cidr": ""}))["cidr"] == "0.0.0.0/0" and caller in OURS
    }
    assert {caller for caller, *_ in blocks} <= {"translator", "tools"}
    assert all({"10.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"} <= {*but} for *_, but in blocks)


@EACH_VARIANT
def test_network_policies_permit_the_dns_cache_of_the_node(objects: list[Manifest]) -> None:
    """NodeLocal DNSCache listens on a link-local address, in a pod of the host network, which no label selects."""
    rules = [rule for policy in of_kind(objects, "NetworkPolicy") for rule in policy["spec"].get("egress", [])]
    names = [rule for rule in rules if {"protocol": "UDP", "port": 53} in rule.get("ports", [])]
    assert names
    assert not [rule for rule in names if {"ipBlock": {"cidr": "169.254.20.10/32"}} not in rule["to"]]


@EACH_VARIANT
def test_autoscalers_and_disruption_budgets_select_existing_pods(objects: list[Manifest]) -> None:
    names = {(document["kind"], document["metadata"]["name"]) for document in objects}
    for scaler in of_kind(objects, "HorizontalPodAutoscaler", "ScaledObject"):
        target = scaler["spec"]["scaleTargetRef"]
        assert (target["kind"], target["name"]) in names
    for budget in of_kind(objects, "PodDisruptionBudget"):
        assert list(_selected(objects, budget["spec"]["selector"]["matchLabels"])), budget["metadata"]["name"]


@EACH_VARIANT
def test_a_workload_has_replicas_or_an_autoscaler_and_never_both(objects: list[Manifest]) -> None:
    scalers = of_kind(objects, "HorizontalPodAutoscaler", "ScaledObject")
    scaled = [scaler["spec"]["scaleTargetRef"]["name"] for scaler in scalers]
    assert len(scaled) == len(set(scaled))
    for document in of_kind(objects, "Deployment"):
        assert (document["metadata"]["name"] in scaled) == ("replicas" not in document["spec"])


@EACH_VARIANT
def test_volumes_and_service_accounts_of_pods_exist(objects: list[Manifest]) -> None:
    there = {(document["kind"], document["metadata"]["name"]) for document in objects}
    there |= {("Secret", name) for name in SECRETS}
    there |= {("Secret", document["spec"]["secretName"]) for document in of_kind(objects, "Certificate")}
    for name, pod in _pods(objects):
        assert {wanted for wanted in _mounted(pod) if wanted[1]} <= there, name


@in_one_test("variant", lambda: everything().keys())
def test_the_console_is_exposed_only_with_its_component(variant: str) -> None:
    console = ["/console"] if "console" in variant.split("+") else []
    for front in of_kind(everything()[variant], "Ingress", "HTTPRoute"):
        if front["metadata"]["name"] == "edge":
            assert list(_paths(front)) == ["/v1/", "/openapi.json", *console], front["kind"]


def test_variables_of_the_nim_operator_configure_the_edge() -> None:
    """NIM Operator 3.1 sets these variables in the pods of every NIMService, whatever the manifest says."""
    service = nim_operator.edge_service()
    port = nim_operator.port_of(service)
    environ = nim_operator.environ(service)
    loaded = settings.load(environ=environ, flags={}, file=None)
    assert (loaded.edge.port, loaded.log.json, loaded.log.level) == (port, True, "INFO")


def test_the_readme_names_every_secret_to_create() -> None:
    readme = (K8S / "README.md").read_text(encoding="utf-8")
    assert not [name for name in SECRETS if f"secret generic {name}" not in readme]


def _pods(objects: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    for document in objects:
        for template in pod_templates(document):
            yield document["metadata"]["name"], template


def _ports(pod: Manifest) -> Iterator[Manifest]:
    for container in pod["spec"]["containers"]:
        yield from container.get("ports", [])


def _selected(objects: list[Manifest], labels: dict[str, str]) -> Iterator[Manifest]:
    """Returns the pods with these labels."""
    return (pod for _, pod in _pods(objects) if labels.items() <= pod["metadata"]["labels"].items())


def _settings(objects: list[Manifest]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the name and the environment of each of our services."""
    configs = {config["metadata"]["name"]: config.get("data", {}) for config in of_kind(objects, "ConfigMap")}
    for name, pod in _pods(objects):
        if name in OURS:
            (container,) = pod["spec"]["containers"]
            (source,) = container["envFrom"]
            given = {one["name"]: one.get("value", URL) for one in container.get("env", [])}
            yield name, configs[source["configMapRef"]["name"]] | given
    for document in of_kind(objects, "NIMService"):
        given = {one["name"]: one["value"] for one in document["spec"].get("env", [])}
        if given:
            yield document["metadata"]["name"], given


def _egress(objects: list[Manifest]) -> Iterator[tuple[str, str, Any]]:
    """Yields (caller, called service, port) for each permitted call."""
    for policy in of_kind(objects, "NetworkPolicy"):
        for caller, rule in product(_callers(policy), policy["spec"].get("egress", [])):
            for peer in rule.get("to", []):
                called = peer.get("podSelector", {}).get("matchLabels", {}).get("app.kubernetes.io/name", "")
                yield from ((caller, called, port["port"]) for port in rule.get("ports", []))


def _callers(policy: Manifest) -> Iterator[str]:
    """Yields the names of the pods that a policy is for."""
    selector = policy["spec"]["podSelector"]
    yield from filter(None, [selector.get("matchLabels", {}).get("app.kubernetes.io/name")])
    for expression in selector.get("matchExpressions", []):
        yield from expression["values"]


def _admitted(objects: list[Manifest], called: str) -> Iterator[str]:
    """Yields the names of the pods that a service's policy admits."""
    for policy in of_kind(objects, "NetworkPolicy"):
        if called in _callers(policy):
            for rule in policy["spec"].get("ingress", []):
                for peer in rule.get("from", []):
                    for expression in peer.get("podSelector", {}).get("matchExpressions", []):
                        yield from expression["values"]


def _paths(front: Manifest) -> Iterator[str]:
    """Yields the paths that an Ingress or an HTTPRoute forwards."""
    for rule in front["spec"]["rules"]:
        yield from (one["path"] for one in rule.get("http", {}).get("paths", []))
        yield from (one["path"]["value"] for one in rule.get("matches", []))


def _mounted(pod: Manifest) -> Iterator[tuple[str, str]]:
    for volume in pod["spec"].get("volumes", []):
        yield "Secret", volume.get("secret", {}).get("secretName", "")
        yield "ConfigMap", volume.get("configMap", {}).get("name", "")
        yield "PersistentVolumeClaim", volume.get("persistentVolumeClaim", {}).get("claimName", "")
    yield "ServiceAccount", pod["spec"]["serviceAccountName"]
    for container in pod["spec"]["containers"]:
        yield from (("ConfigMap", one["configMapRef"]["name"]) for one in container.get("envFrom", []))
