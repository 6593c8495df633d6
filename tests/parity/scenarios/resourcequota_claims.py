"""The resourcequota controller: devices, classes of volumes, custom resources."""

from parity.scenarios.quotas import (
    RESYNCING,
    asking,
    claim,
    device_class,
    exactly,
    first_of,
    gone,
    pod,
    quota,
    scope,
    some,
    story,
    volume,
)
from parity.steps import Look, Quiet, create, patch, status

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

SCENARIOS = (
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
    story(
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
        cluster=RESYNCING,
        counted=False,
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
