"""A quota with the numbers of the last write needs nothing while no total has changed."""

import random

import pytest
from plugins.resourcequota.quota_cluster import QuotaCluster
from plugins.resourcequota.quota_manifests import pod

from kcm_host.api import Key
from kcm_host_resourcequota.evaluators.pods import POD
from kcm_host_resourcequota.models import RESOURCE_QUOTA

STEPS = 80
QUOTA = Key("q", "a")


class Program:
    """Random changes of pods and of one quota, by users, admission and other writers."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.cluster = QuotaCluster()
        self.cluster.quota("pods", "cpu")
        self.cluster.start()
        self._steps = (
            self._create_pod,
            self._create_pod,
            self._delete_pod,
            self._write_other_numbers,
            self._change_limit,
            self._hold_or_release,
            self._wait,
            self._wait,
        )

    def step(self) -> None:
        """Change something."""
        self._random.choice(self._steps)()
        self.cluster.run_due()

    def _create_pod(self) -> None:
        name = f"p{self._random.randrange(5)}"
        if self._random.random() < 1 / 2:
            self.cluster.admit(QUOTA, pods=1)
        self.cluster.put(POD, pod(name, namespace="a"))

    def _delete_pod(self) -> None:
        pods = list(self.cluster.objects.get(POD, {}))
        if pods:
            self.cluster.delete(POD, self._random.choice(pods))

    def _write_other_numbers(self) -> None:
        used = self.cluster.used(QUOTA)
        if self._random.random() < 1 / 2:
            used = {"pods": str(self._random.randrange(5)), "cpu": "0"}
        self.cluster.set_used(QUOTA, **used)

    def _change_limit(self) -> None:
        limit = str(self._random.randrange(5, 8))
        self.cluster.set_hard(QUOTA, pods=limit, cpu="9")

    def _hold_or_release(self) -> None:
        kind = self._random.choice((POD, RESOURCE_QUOTA))
        (self.cluster.hold if self._random.random() < 1 / 2 else self.cluster.release)(kind)

    def _wait(self) -> None:
        self.cluster.advance(self._random.choice((0.01, 0.06, 1.0, 11.0)))


@pytest.mark.parametrize("seed", range(20))
def test_what_was_written_is_right(seed: int) -> None:
    """Whatever happens: a full calculation wants no write, and waits for nothing (RQ-46)."""
    program = Program(seed)
    replenishment = program.cluster.controller._replenishment
    times_written = 0
    for _ in range(STEPS):
        program.step()
        quota = replenishment.quotas.get(QUOTA)
        assert quota is not None
        if replenishment._has_written(quota):
            times_written += 1
            desired = replenishment.desired_status(quota, program.cluster.view)
            assert (desired.is_dirty, desired.release.deferred) == (False, ())
    assert times_written
