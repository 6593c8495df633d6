"""The servicecidrs controller: living ranges, and writes that are refused."""

from typing import Any

from parity.scenario import Cluster, Scenario
from parity.scenarios.ranges import (
    FINALIZER,
    GRACE,
    LARGE,
    OTHER,
    READY,
    TERMINATING,
    V4,
    V6,
    cidr,
    condition,
    edit,
    finalize,
    gone,
    no_service,
    say,
    service,
    touch,
)
from parity.steps import Look, Quiet, Refuse, patch, status, together


def ranges(
    name: str, rules: str, *steps: Any, before: tuple[Any, ...] = (), **more: Any
) -> Scenario:
    """Return a scenario of the servicecidrs controller."""
    return Scenario(name, "servicecidrs", rules, steps, before, **more)


PROXIED = Cluster(proxied=True)
A, KUBERNETES = "servicecidrs/$a", "servicecidrs/kubernetes"


def refused(what: str, rules: str, code: int, subresource: str) -> Scenario:
    """Return a scenario in which a write to a new one is refused three times."""
    return ranges(
        f"an answer {code} to the {what} is retried",
        rules,
        Refuse(A, code, 3, subresource),
        cidr("a", V4),
        cluster=PROXIED,
    )


SCENARIOS = (
    ranges("a new one gets finalizer and condition", "SC-T2, SC-70 to SC-75", cidr("a", V4)),
    ranges("one that is there at the start", "SC-20, SC-T2", before=(cidr("a", V4),)),
    ranges(
        "complete ones are left alone",
        "SC-T3, SC-T31, SC-80",
        cidr("late", LARGE, finalizers=(FINALIZER,)),
        before=(
            cidr("a", V4, finalizers=(FINALIZER,)),
            say("$a", *READY),
            cidr("b", LARGE, finalizers=(FINALIZER,)),
            say("$b", *READY),
        ),
    ),
    ranges(
        "one with the finalizer gets the condition alone",
        "SC-T4, SC-71",
        cidr("a", V4, finalizers=(FINALIZER,)),
        before=(cidr("early", V4, finalizers=(OTHER, FINALIZER)),),
    ),
    ranges(
        "finalizers of others stay",
        "SC-T5, SC-71, SC-131",
        cidr("a", V4, finalizers=(OTHER,)),
        Look("completed"),
        finalize("a", "example.com/another"),
        Look("completed again"),
        finalize("a"),
    ),
    *(
        ranges(
            f"a condition changed by hand is put right: {what}",
            rules,
            Quiet(),
            say("$a", *state),
            Look("put right"),
            touch("a"),
            before=(cidr("a", V4),),
        )
        for what, rules, state in (
            ("not ready", "SC-T30, SC-80", TERMINATING),
            ("another message", "SC-80, SC-84", ("True", "", "other")),
            ("another reason", "SC-80", ("True", "Other", READY[2])),
            ("unknown", "SC-80", ("Unknown", "", READY[2])),
        )
    ),
    ranges(
        "the time of a condition is not compared",
        "SC-80, SC-85",
        Quiet(),
        say("$a", *READY),
        Quiet(),
        status("servicecidrs/$a", {"conditions": [{**condition(*READY), "observedGeneration": 7}]}),
        before=(cidr("a", V4),),
    ),
    ranges(
        "a condition that is taken away comes back",
        "SC-73, SC-80",
        Quiet(),
        status(A, {"conditions": []}),
        Look("back"),
        patch(A, {"status": None}),
        before=(cidr("a", V4),),
    ),
    ranges(
        "conditions of other types stay",
        "SC-80, SC-82, SC-131",
        Quiet(),
        status(A, {"conditions": [condition("False", "R", "m", "Example"), condition(*READY)]}),
        Quiet(),
        status(A, {"conditions": [condition("True", "R", "m", "Example")]}),
        before=(cidr("a", V4),),
    ),
    ranges(
        "the range of the server gets this controller's message",
        "SC-T6, SC-87",
        Look("at the start"),
        say("kubernetes", "True", "", "Kubernetes default Service CIDR is ready"),
        Look("put right"),
        say("kubernetes", *TERMINATING),
        also=(KUBERNETES,),
        counted=False,
    ),
    ranges(
        "one of two families, and one of IPv6",
        "SC-130, SC-T2",
        cidr("a", V4, V6),
        cidr("b", V6),
        cidr("c", V6, V4),
    ),
    ranges(
        "a second range writes nothing",
        "SC-21, SC-130",
        Quiet(),
        edit("a", spec={"cidrs": [V4, V6]}),
        before=(cidr("a", V4),),
    ),
    ranges(
        "a change of something else writes nothing",
        "SC-T28, SC-21",
        Quiet(),
        touch("a"),
        Quiet(),
        edit("a", metadata={"labels": {"some": "label"}}),
        before=(cidr("a", V4),),
    ),
    ranges(
        "many at once",
        "SC-4, SC-20",
        together(cidr(f"n{number:02}", f"10.$.{number}.0/24") for number in range(24)),
        cidr("all", LARGE),
    ),
    ranges(
        "small ranges are ranges as well",
        "SC-30, SC-43",
        cidr("a", "10.$.0.0/32"),
        cidr("b", "10.$.0.2/31", "fd00:$::2/127"),
        cidr("c", "fd00:$::9/128"),
    ),
    *(refused("finalizer", "SC-T25, SC-70, SC-101", code, "") for code in (403, 409, 422, 500)),
    *(refused("condition", "SC-T23, SC-74", code, "status") for code in (403, 404, 409, 500)),
    ranges(
        "an answer 404 to the finalizer ends nothing",
        "SC-T26, SC-71",
        Refuse(A, 404, 1),
        cidr("a", V4),
        cluster=PROXIED,
    ),
    ranges(
        "one that cannot be made ready holds up no other, and goes",
        "SC-101, SC-74, SC-66",
        Refuse(A, 500, 100_000, "status"),
        cidr("a", V4),
        cidr("b", LARGE),
        Look("one ready, one not"),
        gone("a"),
        GRACE,
        cluster=PROXIED,
        counted=False,
    ),
    ranges(
        "a finalizer that cannot be removed is tried again",
        "SC-64, SC-72, SC-101",
        Quiet(),
        Refuse(A, 500, 3),
        gone("a"),
        GRACE,
        before=(cidr("a", V4),),
        cluster=PROXIED,
    ),
    ranges(
        "a removal answered 404 is done",
        "SC-72",
        Quiet(),
        Refuse(A, 404, 1),
        gone("a"),
        GRACE,
        Look("still there, and nobody tries again"),
        before=(cidr("a", V4),),
        cluster=PROXIED,
    ),
    ranges(
        "a kept one that cannot be told is no Event",
        "SC-61, SC-121",
        service("s", 7),
        Quiet(),
        Refuse(A, 500, 3, "status"),
        gone("a"),
        GRACE,
        Look("kept"),
        no_service("s"),
        before=(cidr("a", V4),),
        cluster=PROXIED,
    ),
)
