"""The harness carries a controller with timers, dynamic watches and a clock of its own."""

from datetime import timedelta

from kcm_host.api import Kind
from kcm_host_resourcequota import ResourceQuota
from kcm_host_resourcequota.models import RESOURCE_QUOTA
from kcm_host_resourcequota.settings import QuotaSettings
from kcm_host_testing.harness import ControllerHarness

CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", resource="configmaps")


def test_resourcequota() -> None:
    """Usage follows the objects, also those of a kind that only discovery has named."""

    def quota(harness: ControllerHarness) -> ResourceQuota:
        def seconds() -> float:
            return harness.now.timestamp()

        settings = QuotaSettings(settle_time=timedelta(seconds=1))
        return ResourceQuota(settings, clock=seconds, wall=seconds)

    harness = ControllerHarness(quota, served=[RESOURCE_QUOTA, CONFIG_MAP])
    hard = {"count/configmaps": "2"}
    harness.put(
        RESOURCE_QUOTA, {"metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": hard}}
    )
    harness.put(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "ns"}})
    harness.advance(timedelta(seconds=30))
    status = harness.get(RESOURCE_QUOTA, "ns/q")["status"]
    assert status == {"hard": hard, "used": {"count/configmaps": "1"}}
    harness.delete(CONFIG_MAP, "ns/a")
    harness.advance(timedelta(seconds=30))
    used = harness.get(RESOURCE_QUOTA, "ns/q")["status"]["used"]
    assert used == {"count/configmaps": "0"}
    loop = harness._loop
    del harness
    assert loop.is_closed(), "its timers do not keep the harness alive"
