"""Admission and the controller write the same quota: never too many pods, no update lost."""

import itertools
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from eventually import eventually
from kubernetes import client, watch
from plugins.resourcequota.quota_server import QuotaNamespace, core_of, pod_manifest

LIMIT = 12
THREADS = 4
TURNS = 40


class Recorder(threading.Thread):
    """The largest number of pods at one time."""

    def __init__(self, place: QuotaNamespace) -> None:
        super().__init__(daemon=True)
        self.place = place
        self.most = 0
        self._core = core_of(place.server)
        self._version = self._core.list_namespaced_pod(place.name).metadata.resource_version

    def run(self) -> None:
        """Count pods in the order of their creation and deletion."""
        names: set[str] = set()
        watching: Any = watch.Watch
        pods = watching().stream(
            self._core.list_namespaced_pod, self.place.name, resource_version=self._version
        )
        for event in pods:
            name = event["object"].metadata.name
            (names.discard if event["type"] == "DELETED" else names.add)(name)
            self.most = max(self.most, len(names))
            if name == "last":
                return


@contextmanager
def recorded(place: QuotaNamespace) -> Iterator[Recorder]:
    """Count pods until the block ends and the last event has arrived."""
    recorder = Recorder(place)
    recorder.start()
    yield recorder
    eventually(lambda: _create(place, "last"), "the last pod is admitted")
    recorder.join(20)
    assert not recorder.is_alive()


def _create(place: QuotaNamespace, name: str, core: Any = None) -> bool:
    """Create a pod; return False if the quota is full or changes too often for admission."""
    try:
        (core or place.core).create_namespaced_pod(place.name, pod_manifest(name))
    except client.ApiException as error:
        if error.status == 409 or "exceeded quota" in json.loads(error.body or "")["message"]:
            return False
        raise
    return True


def churn(place: QuotaNamespace, thread: int) -> int:
    """Create and delete pods as fast as the quota permits; return the number of admitted pods."""
    core = core_of(place.server)
    mine: list[str] = []
    admitted = 0
    for turn in range(TURNS):
        name = f"p{thread}-{turn}"
        if _create(place, name, core):
            admitted += 1
            mine.append(name)
        if len(mine) > LIMIT // THREADS or turn % 3 == 2:
            for each in mine[:2]:
                core.delete_namespaced_pod(each, place.name, grace_period_seconds=0)
            del mine[:2]
    return admitted


def test_churn_at_the_limit_never_admits_too_many(place: QuotaNamespace) -> None:
    """
    Usage of deleted pods is released at once, usage of requests in progress stays.

    RQ-T138 to T141, RQ-251 to RQ-253, RQ-B30 to B36.
    """
    place.quota("pods", "count/pods", limit=str(LIMIT))
    place.wait_until({"pods": 0, "count/pods": 0})
    with recorded(place) as recorder, ThreadPoolExecutor(THREADS) as pool:
        admitted = sum(pool.map(churn, itertools.repeat(place, THREADS), range(THREADS)))
    assert admitted > LIMIT
    assert recorder.most <= LIMIT
    left = len(place.core.list_namespaced_pod(place.name).items)
    place.wait_until({"pods": left, "count/pods": left})
