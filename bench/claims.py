"""Pods that need a claim each, the claims made for them, and a pretended scheduler."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from bench import pods
from bench.calls import MERGE, STRATEGIC, Call
from bench.clones import Pattern, new_uid, put_singly, stored
from bench.outcome import require
from bench.stage import Stage

NAMESPACE = "default"
API = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}"
CLAIMS = f"{API}/resourceclaims"
PODS = f"{pods.NAMESPACES}/{NAMESPACE}/pods"
TEMPLATE = "one-device"
FINALIZER = "resource.kubernetes.io/delete-protection"
REQUEST = "device"
FIRST = "trainer-00000"


def create_template(stage: Stage) -> None:
    """Create the template that all pods name."""
    request = {"name": REQUEST, "exactly": {"deviceClassName": "device.example"}}
    body = {
        "metadata": {"name": TEMPLATE},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    stage.calls.one(Call("POST", f"{API}/resourceclaimtemplates", body))


def pod(name: str) -> dict[str, Any]:
    """Return the body of a pod with one claim, made from the template."""
    return pods.pod(name, requests={"cpu": "100m"}, template=TEMPLATE)


def names(count: int) -> Sequence[str]:
    """Return the names of so many pods."""
    return [f"trainer-{number:05}" for number in range(count)]


class Pods:
    """Pods that are ready to be put on a stage all at once."""

    def __init__(self, stage: Stage) -> None:
        """Create one, keep what the API server stored, and remove it again."""
        self._etcd = stage.etcd
        answer = stage.calls.one(pods.creation(NAMESPACE, pod(FIRST)))
        self._uid: str = answer["metadata"]["uid"]
        self._pattern: Pattern = stored(stage.etcd, f"/pods/{NAMESPACE}/{FIRST}")
        stage.calls.one(pods.deletion(NAMESPACE, FIRST))

    def appear(self, wanted: Sequence[str]) -> None:
        """Put pods with these names on the stage, a thousand or two in a second."""
        renamed = ({FIRST: name, self._uid: new_uid()} for name in wanted)
        put_singly(self._etcd, (self._pattern.copied(each) for each in renamed))


def allocate_all(stage: Stage) -> Sequence[str]:
    """Do a scheduler's part for every claim: protect, allocate, reserve. Give their names."""
    listed = stage.calls.one(Call("GET", CLAIMS))["items"]
    uids = {each["metadata"]["uid"]: each["metadata"]["name"] for each in _pods(stage)}
    found = [each["metadata"]["name"] for each in listed]
    protection = {"metadata": {"finalizers": [FINALIZER]}}
    stage.calls.all([Call("PATCH", f"{CLAIMS}/{name}", protection, kind=MERGE) for name in found])
    statuses = [_status(number, each, uids) for number, each in enumerate(listed)]
    stage.calls.all(
        [
            Call("PATCH", f"{CLAIMS}/{name}/status", {"status": status}, kind=MERGE)
            for name, status in zip(found, statuses, strict=True)
        ]
    )
    return found


def _status(number: int, claim: dict[str, Any], pod_names: dict[str, str]) -> dict[str, Any]:
    (owner,) = claim["metadata"]["ownerReferences"]
    device = {"driver": "device.example", "pool": "all", "device": f"device-{number:05}"}
    consumer = {"resource": "pods", "name": pod_names[owner["uid"]], "uid": owner["uid"]}
    results = [{"request": REQUEST, **device}]
    return {"allocation": {"devices": {"results": results}}, "reservedFor": [consumer]}


def finish(stage: Stage, wanted: Sequence[str]) -> None:
    """Report these pods as done, as their kubelets would."""
    done = {"status": {"phase": "Succeeded"}}
    path = "status?fieldManager=kubelet"
    stage.calls.all(
        [Call("PATCH", f"{PODS}/{name}/{path}", done, kind=STRATEGIC) for name in wanted]
    )


def require_made(stage: Stage, wanted: Sequence[str], *, who: str) -> None:
    """Raise `WrongOutcome` unless each of these pods, and no other, has a claim and knows it."""
    listed = stage.calls.one(Call("GET", CLAIMS))["items"]
    owners = {
        each["metadata"]["name"]: each["metadata"]["ownerReferences"][0]["uid"] for each in listed
    }
    told = Counter(
        status["resourceClaimName"]
        for each in _pods(stage)
        for status in each["status"].get("resourceClaimStatuses", [])
        if owners.get(status.get("resourceClaimName")) == each["metadata"]["uid"]
    )
    right = len(told) == len(wanted) == told.total()
    require(right, f"{who}: {len(told)} of {len(wanted)} pods have a claim and know it")


def claims_left(stage: Stage) -> int:
    """Return how many claims there are."""
    return len(stage.calls.one(Call("GET", CLAIMS))["items"])


def _pods(stage: Stage) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = stage.calls.one(Call("GET", PODS))["items"]
    return listed
