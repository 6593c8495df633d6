"""Pods, PodGroups, claims and templates as a server has them, for tests of their controller."""

from collections.abc import Iterable, Mapping
from typing import Any

from kcm_host_resourceclaim.models.claim import FINALIZER

Manifest = dict[str, Any]


def by_template(name: str = "res", template: str = "t") -> Manifest:
    """Return an entry that asks for a claim from a template."""
    return {"name": name, "resourceClaimTemplateName": template}


def by_name(name: str = "res", claim: str = "c") -> Manifest:
    """Return an entry that names a claim."""
    return {"name": name, "resourceClaimName": claim}


def pod(
    name: str = "p",
    *entries: Manifest,
    uid: str = "",
    namespace: str = "ns",
    names: Mapping[str, str | None] | None = None,
    node: str = "",
    phase: str = "Pending",
    deleting: bool = False,
    extended: str = "",
    group: str = "",
) -> Manifest:
    """Return a pod; `names` are the claims recorded for its entries. One entry `res` if none."""
    status: Manifest = {"phase": phase}
    if names:
        status["resourceClaimStatuses"] = [
            {"name": entry, **({"resourceClaimName": claim} if claim is not None else {})}
            for entry, claim in names.items()
        ]
    if extended:
        status["extendedResourceClaimStatus"] = {"resourceClaimName": extended}
    spec: Manifest = {"resourceClaims": list(entries or [by_template()])}
    if node:
        spec["nodeName"] = node
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    metadata = _metadata(name, uid, namespace, deleting)
    return {"resource": "pods", "metadata": metadata, "spec": spec, "status": status}


def bare(manifest: Manifest) -> Manifest:
    """Return a pod or PodGroup without entries."""
    spec = {key: value for key, value in manifest["spec"].items() if key != "resourceClaims"}
    return {**manifest, "spec": spec}


def user(name: str = "p", uid: str = "") -> Manifest:
    """Return a pod as a consumer."""
    return {"resource": "pods", "name": name, "uid": uid or f"u-{name}"}


def group_user(name: str = "g") -> Manifest:
    """Return a PodGroup as a consumer."""
    group = "scheduling.k8s.io"
    return {"apiGroup": group, "resource": "podgroups", "name": name, "uid": f"u-{name}"}


FOREIGN: Manifest = {"apiGroup": "foo.com", "resource": "foo", "name": "f", "uid": "u-f"}


def claim(
    name: str = "c",
    *,
    owner: str = "",
    owner_uid: str = "",
    owner_kind: str = "Pod",
    entry: str = "",
    namespace: str = "ns",
    allocated: bool = False,
    protected: bool = False,
    finalizers: Iterable[str] = (),
    consumers: Iterable[Manifest] = (),
    deleting: bool = False,
    annotations: Mapping[str, str] | None = None,
    admin: bool = False,
) -> Manifest:
    """Return a claim; with `owner` and `entry` it is generated, with `owner` alone owned."""
    metadata = _metadata(name, "", namespace, deleting)
    marks = dict(annotations or {})
    if entry:
        marks["resource.kubernetes.io/pod-claim-name"] = entry
    if marks:
        metadata["annotations"] = marks
    if owner:
        version = "v1" if owner_kind == "Pod" else "scheduling.k8s.io/v1beta1"
        reference = {"apiVersion": version, "kind": owner_kind, "name": owner, "controller": True}
        metadata["ownerReferences"] = [{**reference, "uid": owner_uid or f"u-{owner}"}]
    if protected or finalizers:
        metadata["finalizers"] = list(finalizers) or [FINALIZER]
    status: Manifest = {"reservedFor": list(consumers)} if consumers else {}
    if allocated:
        status["allocation"] = {"devices": {"results": [{"device": "d"}]}}
    spec = claim_spec(admin=admin)
    return {"resource": "resourceclaims", "metadata": metadata, "spec": spec, "status": status}


def claim_spec(*, admin: bool = False, alternatives: bool = False, flat: bool = False) -> Manifest:
    """Return the spec of a claim with one request; `flat`: as v1beta1 writes it."""
    exactly: Manifest = {"deviceClassName": "d", **({"adminAccess": True} if admin else {})}
    request: Manifest = exactly if flat else {"exactly": exactly}
    if alternatives:
        request = {"firstAvailable": [{"name": "one", "deviceClassName": "d"}]}
    return {"devices": {"requests": [{"name": "r", **request}]}}


def template(name: str = "t", *, namespace: str = "ns", **spec: Any) -> Manifest:
    """Return a template."""
    metadata = _metadata(name, "", namespace, deleting=False)
    body = {"spec": claim_spec(**spec)}
    return {"resource": "resourceclaimtemplates", "metadata": metadata, "spec": body}


def group(
    name: str = "g",
    *entries: Manifest,
    names: Mapping[str, str | None] | None = None,
    deleting: bool = False,
    uid: str = "",
) -> Manifest:
    """Return a PodGroup; one entry `res` if none."""
    status: Manifest = {}
    if names:
        status["resourceClaimStatuses"] = [
            {"name": entry, "resourceClaimName": each} for entry, each in names.items()
        ]
    metadata = _metadata(name, uid, "ns", deleting)
    spec = {"resourceClaims": list(entries or [by_template()])}
    return {"resource": "podgroups", "metadata": metadata, "spec": spec, "status": status}


def _metadata(name: str, uid: str, namespace: str, deleting: bool) -> Manifest:
    made: Manifest = {"name": name, "namespace": namespace, "uid": uid or f"u-{name}"}
    if deleting:
        made["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made
