"""The resourcequota controller: what pods are counted as, and in which scopes."""

from typing import Any

from parity.scenarios.quotas import (
    CPU,
    asking,
    container,
    gone,
    phase,
    pod,
    pod_of,
    quota,
    resynced,
    scope,
    story,
)
from parity.steps import Ask, Look, Quiet, bind, create, delete, patch

AMOUNTS = ("requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
GPU, IMPLICIT = "example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"
ALWAYS = "Always"
CLASSES = (
    create("priorityclasses/$high", {"value": 1000}),
    create("priorityclasses/$low", {"value": 10}),
)
BY_CLASS = (
    pod("high", CPU, priorityClassName="$high"),
    pod("low", CPU, priorityClassName="$low"),
    pod("none", CPU),
)


def both(**amounts: str) -> dict[str, Any]:
    """Ask for this and no more than this."""
    names = {name.replace("__", "-"): text for name, text in amounts.items()}
    return {"requests": names, "limits": names}


def of_status(**fields: Any) -> dict[str, Any]:
    """Return what the status of a pod says of its container `c`."""
    told = {"name": "c", "image": "i", "imageID": "i", "ready": True, "restartCount": 0, **fields}
    return {"containerStatuses": [told]}


def resize(reason: str) -> dict[str, Any]:
    """Return the conditions of a pod that waits for a resize."""
    return {"conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}]}


def affinity(kind: str, term: dict[str, Any], *, preferred: bool = False) -> dict[str, Any]:
    """Return the affinity of a pod with one term."""
    whole = {"topologyKey": "zone", "labelSelector": {}, **term}
    if preferred:
        weighted = [{"weight": 1, "podAffinityTerm": whole}]
        return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [whole]}}


def resized(name: str, cpu: str) -> Ask:
    """Ask for another amount of CPU for a pod's container."""
    containers = [{"name": "c", "resources": asking(cpu=cpu)}]
    return Ask("patch", f"pods/$ns/${name}", {"spec": {"containers": containers}}, "resize")


def init(name: str, cpu: str, *, always: bool = False) -> dict[str, Any]:
    """Return an init container; with `always`, one that stays beside the others."""
    more = {"restartPolicy": ALWAYS} if always else {}
    return container(name, asking(cpu=cpu), **more)


SCENARIOS = (
    story(
        "init containers and those that stay",
        "RQ-T32, RQ-T33, RQ-T34, RQ-116",
        pod_of(
            "a",
            [
                container("c1", asking(cpu="100m", memory="1Gi")),
                container("c2", asking(cpu="200m")),
            ],
            ns="a",
            initContainers=[container("i", asking(cpu="1", memory="512Mi"))],
        ),
        pod_of(
            "b",
            [container("c", asking(cpu="1"))],
            ns="b",
            initContainers=[
                init("s1", "1", always=True),
                init("i", "3"),
                init("s2", "2", always=True),
            ],
        ),
        pod_of(
            "c",
            [container("c", asking(cpu="1"))],
            ns="c",
            initContainers=[
                init("s1", "1", always=True),
                init("s2", "2", always=True),
                init("i", "5"),
            ],
        ),
        Quiet(),
        *(quota("requests.cpu", "requests.memory", ns=ns) for ns in ("a", "b", "c")),
    ),
    story(
        "overhead",
        "RQ-T35, RQ-T36, RQ-127",
        pod(
            "a",
            {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}},
            ns="a",
            runtimeClassName="$heavy",
        ),
        pod("b", both(cpu="0"), ns="b", runtimeClassName="$heavy"),
        Quiet(),
        *(quota(*AMOUNTS, ns=ns) for ns in ("a", "b")),
        before=(
            create(
                "runtimeclasses/$heavy",
                {"handler": "h", "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}}},
            ),
        ),
    ),
    story(
        "all that a container may ask for",
        "RQ-T37, RQ-T38, RQ-T39, RQ-T40, RQ-T41, RQ-101 to RQ-104",
        pod("huge", {**both(hugepages__2Mi="4Mi", cpu="1")}),
        pod("gpu", {"requests": {GPU: "2"}, "limits": {GPU: "2"}}),
        pod(
            "disk",
            {"requests": {"ephemeral-storage": "1Gi"}, "limits": {"ephemeral-storage": "2Gi"}},
        ),
        pod("nothing"),
        Quiet(),
        quota(
            *("pods", "cpu", "limits.memory", "hugepages-2Mi", "requests.hugepages-2Mi"),
            *("ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage"),
            *(f"requests.{GPU}", f"requests.{IMPLICIT}"),
            limit="1T",
        ),
        Look("counted"),
        gone("huge"),
        gone("gpu"),
        gone("disk"),
    ),
    story(
        "requests of a whole pod",
        "RQ-T42, RQ-T43, RQ-123 to RQ-125",
        pod_of(
            "a",
            [
                container(
                    "c",
                    {
                        "requests": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi"},
                        "limits": {"cpu": "1", "memory": "2Gi"},
                    },
                )
            ],
            resources={"requests": {"cpu": "2"}, "limits": {"cpu": "3", "memory": "4Gi"}},
        ),
        Quiet(),
        quota(*AMOUNTS, "requests.ephemeral-storage", limit="1T"),
    ),
    resynced(
        "a resize on its way",
        "RQ-T45, RQ-T48, RQ-112 to RQ-121, RQ-240",
        phase(
            "up",
            "Running",
            **of_status(
                allocatedResources={"cpu": "1"},
                resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
            ),
        ),
        phase(
            "down",
            "Running",
            **of_status(allocatedResources={"cpu": "2"}, resources={"requests": {"cpu": "3"}}),
        ),
        Look("on the way"),
        phase(
            "down",
            "Running",
            **of_status(allocatedResources={"cpu": "1"}, resources={"requests": {"cpu": "1"}}),
        ),
        Look("there"),
        patch("pods/$ns/$down", {"metadata": {"labels": {"x": "y"}}}),
        before=(
            pod("up", {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}),
            pod("down", asking(cpu="1")),
            quota("requests.cpu", "limits.cpu"),
        ),
    ),
    resynced(
        "a resize that cannot be",
        "RQ-T46, RQ-T47, RQ-T49, RQ-118",
        *(
            phase(
                name,
                "Running",
                **of_status(
                    allocatedResources={"cpu": "1"},
                    resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
                ),
                **resize(reason),
            )
            for name, reason in (("never", "Infeasible"), ("later", "Deferred"))
        ),
        phase(
            "bare", "Running", **of_status(allocatedResources={"cpu": "2"}), **resize("Infeasible")
        ),
        phase("unknown", "Running", **resize("Infeasible")),
        Quiet(),
        Look("first"),
        gone("never"),
        Quiet(),
        Look("the infeasible one is gone"),
        gone("later"),
        Quiet(),
        Look("the deferred one is gone"),
        gone("bare"),
        before=(
            pod("never", {"requests": {"cpu": "20"}, "limits": {"cpu": "40"}}),
            pod("later", {"requests": {"cpu": "20"}, "limits": {"cpu": "40"}}),
            pod("bare", asking(cpu="1", memory="1Gi")),
            pod("unknown", asking(cpu="1")),
            quota(*AMOUNTS, limit="1T"),
        ),
    ),
    resynced(
        "a pod that is resized",
        "RQ-240, RQ-251",
        resized("p", "1"),
        Quiet(),
        Look("half of it"),
        resized("p", "4"),
        Quiet(),
        before=(pod("p", asking(cpu="2")), quota("requests.cpu", "pods")),
    ),
    resynced(
        "a pod is charged until its time is over",
        "RQ-T31, RQ-T135, RQ-108, RQ-109",
        delete("pods/$ns/$soon", grace_seconds=1),
        delete("pods/$ns/$late", grace_seconds=600),
        *[Quiet()] * 4,
        before=(
            *(pod(name, CPU) for name in ("soon", "late", "stays")),
            *(bind(f"pods/$ns/${name}", "nowhere") for name in ("soon", "late")),
            quota("pods", "count/pods", "cpu"),
        ),
    ),
    story(
        "scopes of pods",
        "RQ-T55, RQ-T56, RQ-T60, RQ-80 to RQ-83, RQ-72",
        pod("ending", activeDeadlineSeconds=60),
        pod("lasting"),
        pod("burstable", asking(cpu="1")),
        pod("guaranteed", both(cpu="1", memory="1Gi")),
        pod("gpu", {"requests": {GPU: "1"}, "limits": {GPU: "1"}}),
        Look("counted by admission"),
        gone("ending"),
        gone("burstable"),
        Look("two are gone"),
        quota("pods", name="late", scopes=["NotBestEffort"]),
        before=(
            quota("pods", name="terminating", scopes=["Terminating"]),
            quota("pods", name="not-terminating", scopes=["NotTerminating"]),
            quota("pods", name="best-effort", scopes=["BestEffort"]),
            quota("pods", "cpu", name="not-best-effort", scopes=["NotBestEffort"]),
            quota("pods", name="two", scopes=["NotTerminating", "NotBestEffort"]),
        ),
    ),
    story(
        "scopes that hold for no counted object",
        "RQ-T62, RQ-76",
        quota("count/configmaps", "count/pods", scopes=["Terminating"]),
        before=(
            pod("ending", activeDeadlineSeconds=60),
            pod("lasting"),
            create("configmaps/$ns/$c"),
        ),
    ),
    story(
        "a pod that gets a deadline",
        "RQ-T64, RQ-240",
        patch("pods/$ns/$p", {"spec": {"activeDeadlineSeconds": 60}}),
        before=(
            pod("p"),
            quota("pods", name="ending", scopes=["Terminating"]),
            quota("pods", name="lasting", scopes=["NotTerminating"]),
        ),
    ),
    story(
        "pods of priority classes",
        "RQ-T57, RQ-T58, RQ-84, RQ-90",
        *BY_CLASS,
        Quiet(),
        quota("pods", name="in", scopeSelector=scope("PriorityClass", "In", "$high")),
        quota("pods", name="not-in", scopeSelector=scope("PriorityClass", "NotIn", "$high")),
        quota("pods", name="exists", scopeSelector=scope("PriorityClass", "Exists")),
        quota("pods", name="none", scopeSelector=scope("PriorityClass", "DoesNotExist")),
        quota("pods", name="scopes", scopes=["PriorityClass"]),
        quota(
            "pods",
            name="both",
            scopes=["PriorityClass"],
            scopeSelector=scope("PriorityClass", "In", "$high"),
        ),
        Look("counted"),
        gone("high"),
        Look("one is gone"),
        gone("none"),
        before=CLASSES,
    ),
    story(
        "affinity to other namespaces",
        "RQ-T59, RQ-85",
        pod("a", affinity=affinity("podAffinity", {"namespaces": ["other"]})),
        pod("b", affinity=affinity("podAntiAffinity", {"namespaceSelector": {}}, preferred=True)),
        pod("c", affinity=affinity("podAffinity", {})),
        pod("d", affinity=affinity("podAntiAffinity", {"namespaces": ["$ns"]})),
        Quiet(),
        quota("pods", scopes=["CrossNamespacePodAffinity"]),
        Look("three"),
        gone("a"),
        gone("c"),
    ),
    story(
        "a selector without meaning",
        "RQ-T61, RQ-73, RQ-92",
        quota("pods", "cpu", scopeSelector=scope("PriorityClass", "In", "a b")),
        Look("zeros"),
        gone("high"),
        Look("zeros still"),
        quota("pods", name="right"),
        before=(*CLASSES, *BY_CLASS),
        differs=("resourcequota c",),
    ),
)
