"""The resourceclaim controller: restarts, outages, refused writes, and PodGroups."""

from functools import partial
from typing import Any

from parity.scenario import Cluster
from parity.scenarios.claims import (
    OTHER_UID,
    PROXIED,
    RESTLESS,
    THIRD_UID,
    allocate,
    by_name,
    by_template,
    claim,
    ends,
    held,
    made,
    now,
    phase,
    pod,
    story,
    template,
    uncounted,
    user,
    users,
)
from parity.steps import Look, Machine, Quiet, Refuse, Step, Wait, bind, create, delete, patch

#: PodGroups are alpha in 1.36: all three have to be told.
GROUPS = Cluster(
    server={
        "feature_gates": {"GenericWorkload": True, "DRAWorkloadResourceClaims": True},
        "runtime_config": {"scheduling.k8s.io/v1alpha2": True},
    },
    reference_args=("--feature-gates=GenericWorkload=true,DRAWorkloadResourceClaims=true",),
    settings={"resourceclaim": {"genericWorkload": True, "workloadClaims": True}},
)
#: The server has groups, and the controllers do not know of it.
UNTOLD = Cluster(server=GROUPS.server)
proxied, grouped = partial(story, cluster=PROXIED), partial(story, cluster=GROUPS)
MEMBER: dict[str, Any] = {"schedulingGroup": {"podGroupName": "g"}}


def group(name: str = "g", *entries: Any) -> Any:
    """Create a PodGroup, with one entry `res` unless others are given."""
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": list(entries or [by_template()])}
    return create(f"podgroups/$ns/{name}", {"spec": spec})


def no_group(name: str = "g") -> tuple[Step, ...]:
    """Delete a PodGroup, which nobody else protects here."""
    return (
        patch(f"podgroups/$ns/{name}", {"metadata": {"finalizers": None}}),
        delete(f"podgroups/$ns/{name}"),
    )


LIFE = (
    uncounted(
        "what happened while the controllers were down",
        "RC-4, RC-7, RC-57 to RC-62, T-69",
        template(),
        pod("lives"),
        pod("goes", by_template(), by_name("c", "shared"), node="n"),
        pod("stays", by_name(), node="n"),
        claim(),
        Quiet(),
        *allocate("c", *users("goes", "stays")),
        *allocate(made("goes"), user("goes")),
        Machine.STOP,
        now("pods/$ns/goes"),
        pod("comes", by_template(), by_name("c", "shared"), node="n"),
        *allocate(made("lives"), user("lives")),
        bind("pods/$ns/lives", "n"),
        claim("old", of="stays", uid=OTHER_UID),
        Machine.START,
        Look("caught up"),
        *ends("lives"),
    ),
    story(
        "pods that ended while the controllers were down",
        "RC-7, RC-58, RC-62",
        template(),
        pod("p", node="n"),
        Quiet(),
        *allocate(made(), user()),
        Machine.STOP,
        *held(["p"]),
        phase("p", "Failed"),
        Machine.START,
    ),
    uncounted(
        "killed in the midst of work",
        "RC-7, RC-38",
        template(),
        *(pod(f"p{number:02}") for number in range(20)),
        Machine.KILL,
        pod("late"),
        Machine.START,
    ),
    uncounted(
        "the API server restarts",
        "RC-33",
        template(),
        pod(),
        Quiet(),
        Machine.RESTART_SERVER,
        *allocate(made(), user()),
        bind("pods/$ns/p", "n"),
        pod("late"),
        Look("with another pod"),
        now("pods/$ns/p"),
    ),
    uncounted(
        "the watches expire",
        "RC-7, RC-22",
        template(),
        pod(node="n"),
        Quiet(),
        Machine.EXPIRE,
        *allocate(made()),
        pod("late"),
        Look("reserved"),
        now("pods/$ns/p"),
    ),
)

REFUSED = (
    *(
        proxied(
            f"making a claim is answered with {code}",
            "RC-33, RC-70, T-22",
            Refuse("resourceclaims/$ns/any", code, 3, method="POST"),
            template(),
            pod(),
        )
        for code in (403, 409, 500)
    ),
    proxied(
        "a record that is refused is tried again with the same claim",
        "RC-15, RC-38, RC-71, T-23",
        Refuse("pods/$ns/p", 500, 3, subresource="status"),
        template(),
        pod("p", by_template("a"), by_template("b")),
        **RESTLESS,
    ),
    proxied(
        "a reservation that is refused is tried again",
        "RC-33, RC-61, RC-71, T-30",
        claim(),
        Refuse("resourceclaims/$ns/c", 409, 2, subresource="status", method="PUT"),
        pod("p", by_name(), node="n"),
        *allocate("c"),
        # After a conflict the host waits for what it conflicted with, a second at most.
        Wait(2.5),
    ),
    proxied(
        "a release that is refused is tried again",
        "RC-33, RC-58",
        claim(),
        Refuse("resourceclaims/$ns/c", 500, 2, subresource="status", method="PUT"),
        *allocate("c", user("never", uid=OTHER_UID)),
    ),
    proxied(
        "a finalizer that could not be removed stays",
        "RC-58, Q-10",
        claim(),
        Refuse("resourceclaims/$ns/c", 500, 1, method="PUT"),
        *allocate("c", user("never", uid=OTHER_UID)),
        Look("still protected"),
        delete("resourceclaims/$ns/c"),
    ),
    proxied(
        "nothing is written before all consumers are known",
        "RC-57, T-40",
        claim(),
        Refuse("pods/$ns/never", 500, 2, method="GET"),
        *allocate("c", user("never", uid=OTHER_UID), user("neither", uid=THIRD_UID)),
    ),
    proxied(
        "a deletion that is refused is tried again",
        "RC-33, RC-62",
        Refuse("resourceclaims/$ns/p-res-.*", 500, 2, method="DELETE"),
        template(),
        pod(held=True),
        Quiet(),
        delete("pods/$ns/p"),
    ),
)

OF_GROUPS = (
    grouped(
        "a group and its pods share claims",
        "RC-50 to RC-56, T-70 to T-75",
        template(),
        group(),
        Look("the group's own"),
        pod("one", **MEMBER),
        pod("two", by_template(), by_template("own"), **MEMBER),
        Look("its pods"),
        *allocate(made("g", of="podgroups")),
        bind("pods/$ns/one", "n"),
        Look("in use"),
        bind("pods/$ns/two", "m"),
        Look("by both"),
        *ends("one"),
        *ends("two"),
        Look("the pods are gone"),
        *no_group(),
        counted=False,
        **RESTLESS,
    ),
    grouped(
        "a group that comes after its pods",
        "RC-30, RC-40, RC-71, T-71, T-78, T-79",
        template(),
        pod("p", **MEMBER),
        Look("no group"),
        group(),
        counted=False,
    ),
    grouped(
        "a group waits for its template",
        "RC-12, RC-54, RC-70",
        group("g", by_template("a"), by_template("b")),
        pod("p", by_template("a"), **MEMBER),
        Look("waiting"),
        template(),
        counted=False,
        **RESTLESS,
    ),
    grouped(
        "an entry unlike those of the group is the pod's own",
        "1.6, T-73",
        template(),
        template("mine"),
        group(),
        pod("p", by_template("res", "mine"), **MEMBER),
        pod("q", by_name(), **MEMBER),
    ),
    grouped(
        "a group as consumer that never was",
        "RC-57, T-75",
        claim(),
        *allocate(
            "c", {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "u"}
        ),
    ),
    story(
        "a pod in a group that the controllers do not look up",
        "RC-31, T-76",
        template(),
        pod("p", **MEMBER),
        pod("q"),
        cluster=UNTOLD,
        differs=("resourceclaim e",),
    ),
)

SCENARIOS = (*LIFE, *REFUSED, *OF_GROUPS)
