"""Requests about pods, claims and templates, for the scenarios that need some."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from parity.scenario import Cluster, Scenario
from parity.steps import Ask, Quiet, Step, create, delete, patch, status
from parity.words import claim_of, uid_of

Body = dict[str, Any]
#: Beside a finalizer of its own the scheduler's is set with each allocation.
PROTECTION = "resource.kubernetes.io/delete-protection"
MARK = "resource.kubernetes.io/pod-claim-name"
HOLD = "example.com/hold"
OTHER_UID = "00000000-0000-4000-8000-000000000000"
THIRD_UID = "00000000-0000-4000-8000-000000000001"
DEVICES = {"results": [{"request": "r", "driver": "d.example", "pool": "p", "device": "one"}]}
FOREIGN = {"apiGroup": "foo.com", "resource": "foo", "name": "f", "uid": "u-f"}
PROXIED = Cluster(proxied=True)
#: For who has two claims of its own: the reference records only those made since it last looked,
#: and so takes back the others, for ever if it is unlucky (Difference a).
RESTLESS = {"restless": True}


def story(name: str, rules: str, *steps: Step, **more: Any) -> Scenario:
    """Return a scenario of the resourceclaim controller; all claims are compared."""
    played = tuple(_known_first(steps))
    return Scenario(name, "resourceclaim", rules, played, also=("resourceclaims",), **more)


#: Scenarios in which the number of writes is chance.
uncounted = partial(story, counted=False)


def _known_first(steps: Sequence[Step]) -> Iterator[Step]:
    """
    Wait between templates and who asks for them.

    Controllers hear of both over different watches, and warn when the pod is the first.
    """
    for step, then in zip_longest(steps, steps[1:]):
        yield step
        if _is_template(step) and isinstance(then, Ask) and not _is_template(then):
            yield Quiet()


def _is_template(step: Step) -> bool:
    templates = "resourceclaimtemplates/"
    return isinstance(step, Ask) and step.verb == "create" and step.ref.startswith(templates)


# Objects as users make them.


def by_template(name: str = "res", template: str = "t") -> Body:
    """Return an entry that asks for a claim from a template."""
    return {"name": name, "resourceClaimTemplateName": template}


def by_name(claim: str = "c", name: str = "res") -> Body:
    """Return an entry that names a claim."""
    return {"name": name, "resourceClaimName": claim}


def spec(**request: Any) -> Body:
    """Return the spec of a claim with one request, of one device unless fields are named."""
    return {"devices": {"requests": [{"name": "r", **(request or exactly())}]}}


def exactly(**fields: Any) -> Body:
    """Return the fields of a request for one device."""
    return {"exactly": {"deviceClassName": "d", **fields}}


def template(name: str = "t", *, metadata: Body | None = None, **request: Any) -> Ask:
    """Create a template; `metadata` is that of the claims."""
    body = {"metadata": metadata or {}, "spec": spec(**request)}
    return create(f"resourceclaimtemplates/$ns/{name}", {"spec": body})


def pod(name: str = "p", *entries: Body, node: str = "", held: bool = False, **fields: Any) -> Ask:
    """Create a pod with one entry `res` unless others are given; `held`: a finalizer keeps it."""
    # The server tracks fields of an object only if it had some of them from the beginning.
    metadata: Body = {"labels": {"made-by": "a-scenario"}}
    if held:
        metadata["finalizers"] = [HOLD]
    container = {"name": "c", "image": "i"}
    body = {"containers": [container], "resourceClaims": list(entries or [by_template()]), **fields}
    if node:
        body["nodeName"] = node
    return create(f"pods/$ns/{name}", {"metadata": metadata, "spec": body})


def claim(
    name: str = "c",
    *,
    of: str = "",
    uid: str = "",
    annotations: Mapping[str, str] | None = None,
    finalizers: Sequence[str] = (),
    namespace: str = "$ns",
) -> Ask:
    """Create a claim; `of` names the pod that controls it, with this `uid` if not its own."""
    metadata: Body = {"annotations": dict(annotations or {}), "finalizers": list(finalizers)}
    if of:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": of, "controller": True}
        metadata["ownerReferences"] = [{**owner, "uid": uid or uid_of("pods", of)}]
    return create(f"resourceclaims/{namespace}/{name}", {"metadata": metadata, "spec": spec()})


# What scheduler and kubelet do.


def made(name: str = "p", entry: str = "res", *, of: str = "pods") -> str:
    """Return the word for the claim that was made for an entry."""
    return claim_of(of, name, entry)


def user(name: str = "p", uid: str = "") -> Body:
    """Return a pod as consumer."""
    return {"resource": "pods", "name": name, "uid": uid or uid_of("pods", name)}


def users(*names: str) -> list[Body]:
    """Return pods as consumers."""
    return [user(name) for name in names]


def protect(name: str, *others: str) -> Ask:
    """Set the scheduler's finalizer behind others."""
    finalizers = [*others, PROTECTION]
    return patch(f"resourceclaims/$ns/{name}", {"metadata": {"finalizers": finalizers}})


def reserve(name: str, *consumers: Body) -> Ask:
    """Allocate a claim and reserve it for all of these consumers."""
    body: Body = {"allocation": {"devices": DEVICES}}
    if consumers:
        body["reservedFor"] = list(consumers)
    return status(f"resourceclaims/$ns/{name}", body)


def allocate(name: str, *consumers: Body) -> tuple[Ask, Ask]:
    """Do as the scheduler does: protect, then allocate and reserve."""
    return protect(name), reserve(name, *consumers)


def phase(name: str, phase: str) -> Ask:
    """Report how far a pod is."""
    return status(f"pods/$ns/{name}", {"phase": phase})


def now(ref: str) -> Ask:
    """Delete without a grace period."""
    return delete(ref, grace_seconds=0)


def held(names: Iterable[str]) -> tuple[Ask, ...]:
    """Begin to delete pods that stay until they are let go, so that both sides see it."""
    asks: list[Ask] = []
    for name in names:
        asks += [patch(f"pods/$ns/{name}", {"metadata": {"finalizers": [HOLD]}})]
        asks += [delete(f"pods/$ns/{name}")]
    return tuple(asks)


def let_go(*names: str) -> tuple[Ask, ...]:
    """Remove pods whose deletion a finalizer has held up."""
    return tuple(
        step
        for name in names
        for step in (
            now(f"pods/$ns/{name}"),
            patch(f"pods/$ns/{name}", {"metadata": {"finalizers": None}}),
        )
    )


def ends(name: str, how: str = "Succeeded") -> tuple[Step, ...]:
    """Delete a scheduled pod as kubelets do: it ends, and is gone when its work is done."""
    return (*held([name]), phase(name, how), Quiet(), *let_go(name))
