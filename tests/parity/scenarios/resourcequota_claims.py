"""The resourcequota controller: devices, classes, custom resources; restarts and refused writes."""

from functools import partial

from parity.scenario import Scenario
from parity.scenarios.quotas import (
    CPU,
    PROXIED,
    RESYNCING,
    asking,
    claim,
    device_class,
    exactly,
    first_of,
    gone,
    limits,
    phase,
    pod,
    pods,
    quota,
    resynced,
    scope,
    some,
    story,
    volume,
)
from parity.steps import RESTART, Look, Machine, Quiet, Refuse, create, delete, patch, status

DEVICES = "deviceclass.resource.k8s.io/devices"
IMPLICIT = "requests.deviceclass.resource.kubernetes.io"
GPU = "$x.example.com/gpu"
GPU_CLASS = device_class("gpu", extendedResourceName=GPU)
ONE_GPU = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
ATTRIBUTES = "VolumeAttributesClass"
WIDGETS = "count/widgets.quota.example.com"
WIDGETS_SERVED = create(
    "customresourcedefinitions/widgets.quota.example.com",
    {
        "spec": {
            "group": "quota.example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        }
    },
)

CLAIMS = (
    story(
        "devices of claims",
        "RQ-T85, RQ-T86, RQ-T87, RQ-178 to RQ-181",
        claim("a", exactly("gpu", 2), exactly("net", None)),
        claim("b", first_of(("gpu", 4), ("gpu", 2), ("fpga", 1))),
        claim("c", exactly("gpu", 2), first_of(("gpu", 3), ("gpu", 1))),
        Quiet(),
        quota(
            *(f"${name}.{DEVICES}" for name in ("gpu", "net", "fpga", "none")),
            "count/resourceclaims.resource.k8s.io",
        ),
        Look("three claims"),
        gone("a", resource="resourceclaims"),
        Look("without the first"),
        gone("c", resource="resourceclaims"),
    ),
    story(
        "extended names of device classes",
        "RQ-T88, RQ-T89, RQ-T92, RQ-172 to RQ-174, RQ-183",
        claim("a", exactly("gpu", 2)),
        claim("b", exactly("plain", 3)),
        pod("p", ONE_GPU),
        Quiet(),
        quota(
            f"requests.{GPU}",
            f"$gpu.{DEVICES}",
            *(f"{IMPLICIT}/${name}" for name in ("gpu", "plain", "none")),
        ),
        Look("all"),
        gone("p"),
        Look("without the pod"),
        gone("a", resource="resourceclaims"),
        before=(GPU_CLASS, device_class("plain")),
    ),
    story(
        "claims are in no scope",
        "RQ-T93, RQ-175",
        claim("a", exactly("gpu", 2)),
        pod("p", ONE_GPU, priorityClassName="$high"),
        Quiet(),
        quota(f"requests.{GPU}", "pods", scopeSelector=scope("PriorityClass", "Exists")),
        before=(GPU_CLASS, create("priorityclasses/$high", {"value": 1000})),
        tolerant=True,
    ),
    resynced(
        "a device class that gets a name",
        "RQ-T96, RQ-174, RQ-186",
        patch("deviceclasses/$gpu", {"spec": {"extendedResourceName": GPU}}),
        Quiet(),
        Look("with a name"),
        patch("deviceclasses/$gpu", {"spec": {"extendedResourceName": None}}),
        Quiet(),
        before=(
            device_class("gpu"),
            claim("a", exactly("gpu", 2)),
            quota(f"requests.{GPU}", "count/resourceclaims.resource.k8s.io"),
        ),
    ),
    story(
        "volume claims of attributes classes",
        "RQ-T80, RQ-T81, RQ-88, RQ-89",
        volume("gold", "1Gi", volumeAttributesClassName="gold"),
        volume("none", "1Gi"),
        status("persistentvolumeclaims/$ns/$gold", {"currentVolumeAttributesClassName": "silver"}),
        Quiet(),
        *(
            quota(
                "persistentvolumeclaims",
                name=name,
                scopeSelector=scope(ATTRIBUTES, operator, *values),
            )
            for name, operator, *values in (
                ("silver", "In", "silver"),
                ("gold", "In", "gold"),
                ("not-gold", "NotIn", "gold"),
                ("some", "Exists"),
                ("none", "DoesNotExist"),
            )
        ),
        Look("being changed"),
        status("persistentvolumeclaims/$ns/$gold", {"currentVolumeAttributesClassName": "gold"}),
    ),
    story(
        "a volume claim of another attributes class",
        "RQ-T145, RQ-89",
        patch("persistentvolumeclaims/$ns/$v", {"spec": {"volumeAttributesClassName": "silver"}}),
        Look("asked for"),
        status("persistentvolumeclaims/$ns/$v", {"currentVolumeAttributesClassName": "silver"}),
        before=(
            *(
                quota(
                    "persistentvolumeclaims", name=name, scopeSelector=scope(ATTRIBUTES, "In", name)
                )
                for name in ("gold", "silver")
            ),
            volume("v", "1Gi", volumeAttributesClassName="gold"),
            status(
                "persistentvolumeclaims/$ns/$v",
                {"phase": "Bound", "currentVolumeAttributesClassName": "gold"},
            ),
        ),
        tolerant=True,
    ),
    story(
        "custom resources are counted",
        "RQ-T102, RQ-T114, RQ-202",
        # A server takes a moment before it lists what it has just been told of.
        *[Quiet()] * 4,
        some("widgets", "a", "b", "c"),
        Look("three"),
        gone("a", resource="widgets"),
        Look("two"),
        patch("widgets/$ns/$b", {"metadata": {"labels": {"x": "y"}}}),
        Quiet(),
        quota(WIDGETS, name="late"),
        before=(WIDGETS_SERVED, pod("p", asking(cpu="1")), quota(WIDGETS, "pods")),
        alone=True,
    ),
)

#: Times that a refused write is tried again: after a conflict, the host waits a second for news.
PATIENCE = [Quiet()] * 4
NAMES = ("pods", "cpu", "configmaps")


proxied = partial(story, cluster=PROXIED, counted=False)


def refused(code: int) -> Scenario:
    """Return a scenario in which the first write is refused twice."""
    return story(
        f"an answer {code} is tried again",
        "RQ-31, RQ-34, RQ-T14",
        Refuse("resourcequotas/$ns/$q", code, 2, "status", "PUT"),
        quota(*NAMES),
        *PATIENCE,
        before=(pods(2),),
        cluster=PROXIED,
        counted=False,
    )


LIFE = (
    resynced(
        "what changed while the controllers were down",
        "RQ-15, RQ-20, RQ-24, RQ-T20",
        Quiet(),
        Machine.STOP,
        gone("p0"),
        phase("p1", "Succeeded"),
        pod("late", CPU),
        gone("was", resource="resourcequotas"),
        quota("pods", name="new"),
        limits(cpu=None, secrets="3"),
        Machine.START,
        Quiet(),
        before=(pods(4), quota(*NAMES), quota("pods", name="was")),
    ),
    story(
        "a restart writes nothing",
        "RQ-T2, RQ-15",
        Quiet(),
        *RESTART,
        before=(pods(3), some("configmaps", "c"), quota(*NAMES)),
        cluster=RESYNCING,
    ),
    resynced(
        "a status edited while the controllers were down",
        "RQ-T17, RQ-24, RQ-46",
        Quiet(),
        Machine.STOP,
        status("resourcequotas/$ns/$high", {"used": {"pods": "9"}}),
        status("resourcequotas/$ns/$low", {"used": {"pods": "0", "cpu": None}}),
        status("resourcequotas/$ns/$none", {"used": None, "hard": None}),
        Machine.START,
        Quiet(),
        before=(pods(3), *(quota("pods", "cpu", name=name) for name in ("high", "low", "none"))),
    ),
    resynced(
        "killed in the midst of work",
        "RQ-15, RQ-53",
        pods(20),
        *(gone(f"p{number}") for number in range(0, 20, 2)),
        Machine.KILL,
        gone("p1"),
        quota("pods", name="late"),
        Machine.START,
        Quiet(),
        before=(quota(*NAMES),),
    ),
    resynced(
        "the API server restarts",
        "RQ-71, RQ-225",
        pods(3),
        Quiet(),
        Machine.RESTART_SERVER,
        gone("p0"),
        Quiet(),
        pod("late", CPU),
        quota("cpu", name="late"),
        Quiet(),
        before=(quota(*NAMES),),
    ),
    resynced(
        "the watches expire",
        "RQ-T111, RQ-T134",
        pods(6),
        some("configmaps", "c", "d"),
        Quiet(),
        Machine.EXPIRE,
        gone("p0"),
        gone("p1"),
        gone("c", resource="configmaps"),
        Quiet(),
        before=(quota(*NAMES),),
    ),
    *map(refused, (403, 404, 409, 422, 500, 503)),
    proxied(
        "a quota that goes while its writes are refused",
        "RQ-53, RQ-31",
        Refuse("resourcequotas/$ns/$q", 500, 100_000, "status", "PUT"),
        quota(*NAMES),
        quota("pods", name="other"),
        Look("the other one is written"),
        delete("resourcequotas/$ns/$q"),
        before=(pods(2),),
    ),
    proxied(
        "a change while a write is refused",
        "RQ-31, RQ-34",
        Refuse("resourcequotas/$ns/$q", 500, 6, "status", "PUT"),
        gone("p0"),
        limits(secrets="7"),
        Quiet(),
        Quiet(),
        before=(pods(3), quota(*NAMES)),
    ),
)

SCENARIOS = (*CLAIMS, *LIFE)
