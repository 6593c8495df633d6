"""The Deployment that operators copy: one host at a time, with settings that load."""

from typing import Any

import yaml
from pages import blocks

from kcm_host.config.load import load_settings


def deployment() -> dict[str, Any]:
    """Return the one Deployment of the pages."""
    found = [yaml.safe_load(block.text) for block in blocks("yaml")]
    one: dict[str, Any]
    (one,) = [each for each in found if each.get("kind") == "Deployment"]
    return one


def test_no_two_hosts_at_a_time() -> None:
    """Until replicas are built, an update ends the old host before it starts the new one (F-80)."""
    spec = deployment()["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


def test_its_variables_are_a_configuration() -> None:
    """The variables alone say all, and the pod has time to drain (F-80, F-85)."""
    pod = deployment()["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    environ = {one["name"]: one["value"] for one in container["env"]}
    loaded = load_settings(file=None, environ=environ)
    assert loaded.warnings == ()
    assert sorted(loaded.settings.controllers) == ["resourcequota", "ttl"]
    drain = loaded.settings.shutdown_timeout.total_seconds()
    assert pod["terminationGracePeriodSeconds"] > drain
    _, port = loaded.settings.http.address
    probes = (container["livenessProbe"], container["readinessProbe"])
    assert {probe["httpGet"]["port"] for probe in probes} == {port}
