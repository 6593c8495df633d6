"""The log of `kcm-host run` on a real API server."""

import json
from pathlib import Path
from typing import Any

from eventually import eventually
from plugin_site import PluginSite, controller
from running_host import RunningHost

from kcm_host_testing.api_server import ApiServer


def test_every_line_of_a_json_log_is_json(api_server: ApiServer, tmp_path: Path) -> None:
    """From the first line to the last; at level debug failing syncs have a stack."""
    site = PluginSite(tmp_path / "plugins")
    site.plugin("loop", controller("raise ValueError('two\\nlines')"))
    config: dict[str, Any] = {"controllers": {"loop": {}}}
    environment = site.environment
    with RunningHost(config, kubeconfig=api_server.kubeconfig(), environment=environment) as host:
        eventually(lambda: host.log("sync failed"), "a sync has failed")
        host.stop()
        lines = [json.loads(line) for line in host.process.log.read_text().splitlines()]
    for line in lines:
        assert {"time", "level", "logger", "event"} <= line.keys()
    stacks = [line["stack"] for line in lines if "stack" in line]
    assert "acme_loop.py" in stacks[0]
    assert "ValueError: two" in stacks[0]
