"""The resourceclaim controller: which claims it makes for pods, and how it records them."""

from parity.scenarios.claims import (
    MARK,
    OTHER_UID,
    RESTLESS,
    by_name,
    by_template,
    claim,
    exactly,
    held,
    made,
    pod,
    story,
    template,
    uncounted,
)
from parity.steps import RESTART, Look, Machine, Quiet, delete, patch, status
from parity.words import uid_of

ADMIN = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
LABELS = {"labels": {"a": "b"}, "annotations": {"x": "y", MARK: "overridden"}}
ALTERNATIVES = [{"name": "one", "deviceClassName": "d"}]


def recorded(*records: dict[str, str]) -> dict[str, object]:
    """Return a status with these records of claims."""
    return {"resourceClaimStatuses": list(records)}


SCENARIOS = (
    story("a claim is made and recorded", "RC-35 to RC-45, T-1", template(), pod()),
    story("pods that are there at the start", "RC-7, T-1", before=(template(), pod())),
    story(
        "labels and annotations come from the template's spec",
        "RC-44, T-2",
        template(metadata=LABELS),
        patch("resourceclaimtemplates/$ns/t", {"metadata": {"labels": {"not": "taken"}}}),
        pod(),
    ),
    story(
        "a template with alternatives", "RC-39, T-5", template(firstAvailable=ALTERNATIVES), pod()
    ),
    story(
        "several entries are recorded at once",
        "RC-42, T-19",
        template(),
        pod("p", by_template("b"), by_template("a"), by_name(name="static")),
        **RESTLESS,
    ),
    uncounted(
        "an entry waits for its template",
        "RC-25, RC-35.3, RC-70, T-6, T-21, T-66",
        template(),
        pod("p", by_template("a"), by_template("b", "late")),
        Look("one is made, none recorded"),
        template("late"),
        Look("both"),
        delete("resourceclaimtemplates/$ns/late"),
        delete("resourceclaimtemplates/$ns/t"),
        **RESTLESS,
    ),
    uncounted(
        "a pod that is deleted while it waits",
        "RC-35.1, RC-70, T-17",
        pod(held=True),
        Quiet(),
        delete("pods/$ns/p"),
        template(),
    ),
    story(
        "later changes of a template change no claim",
        "RC-44",
        template(metadata=LABELS),
        pod(),
        Quiet(),
        delete("resourceclaimtemplates/$ns/t"),
        template(firstAvailable=ALTERNATIVES),
        Look("as before"),
        pod("q"),
    ),
    story(
        "a claim that was made before is taken",
        "RC-38, T-10",
        before=(pod(), claim("c1", of="p", annotations={MARK: "res"})),
    ),
    story(
        "a claim that is not marked for the entry is not",
        "RC-38, T-12 to T-15",
        before=(
            template(),
            pod(),
            claim("p-res"),
            claim("marked-for-another", of="p", annotations={MARK: "other"}),
            claim("unmarked", of="p"),
            claim("of-another-pod", of="p", uid=OTHER_UID, annotations={MARK: "res"}),
        ),
    ),
    story(
        "a recorded claim is left alone",
        "RC-36, T-7, T-67",
        Quiet(),
        patch("pods/$ns/p", {"metadata": {"labels": {"some": "label"}}}),
        before=(
            template(),
            pod(),
            claim("c1", of="p", annotations={MARK: "res"}),
            status("pods/$ns/p", recorded({"name": "res", "resourceClaimName": "c1"})),
        ),
    ),
    story(
        "a recorded claim that is gone is replaced",
        "RC-36, T-8",
        before=(
            template(),
            pod(),
            status("pods/$ns/p", recorded({"name": "res", "resourceClaimName": "c0-gone-long"})),
        ),
    ),
    story(
        "a recorded claim of another pod is replaced",
        "RC-36, T-33",
        before=(
            template(),
            pod(),
            claim("foreign", of="p", uid=OTHER_UID, annotations={MARK: "res"}),
            status("pods/$ns/p", recorded({"name": "res", "resourceClaimName": "foreign"})),
        ),
    ),
    story(
        "a claim of the right owner in another namespace",
        "RC-10, RC-38",
        before=(
            template(),
            pod(),
            claim(
                "elsewhere",
                of="p",
                uid=uid_of("pods", "$ns/p"),
                annotations={MARK: "res"},
                namespace="$other",
            ),
        ),
        differs=("resourceclaim x",),
    ),
    story(
        "an entry that needs no claim",
        "RC-36, 1.3",
        before=(template(), pod(), status("pods/$ns/p", recorded({"name": "res"}))),
    ),
    story(
        "a claim deleted while the controllers were down",
        "RC-7, RC-36, T-92",
        template(),
        pod(),
        Look("made"),
        Machine.STOP,
        delete(f"resourceclaims/$ns/{made()}"),
        Machine.START,
    ),
    story(
        "claims named by pods are the users'",
        "RC-37, T-24",
        pod("p", by_name("c")),
        pod("q", by_name("c"), node="n"),
        Quiet(),
        claim("c"),
        Look("with the claim"),
        delete("resourceclaims/$ns/c"),
    ),
    story(
        "long names",
        "RC-45, T-31",
        template(),
        pod("p" * 40, by_template("e" * 20)),
        pod("p" * 30, by_template("e" * 25)),
        pod("r" * 30, by_template("f" * 26)),
        pod("q" * 200, by_template("g" * 63)),
    ),
    uncounted(
        "a short name of a pod and a long one of an entry",
        "RC-45, Q-13, D-12",
        template(),
        pod("p", by_template("e" * 60), held=True),
        Look("tried"),
        delete("pods/$ns/p"),
        differs=("resourceclaim q",),
    ),
    uncounted(
        "admin access where the namespace allows it",
        "RC-41, RC-70, T-4, T-22",
        patch("namespaces/$ns", ADMIN),
        template(**exactly(adminAccess=True)),
        pod(),
        Look("allowed"),
        patch("namespaces/$ns", {"metadata": {"labels": None}}),
        pod("q", held=True),
        Look("refused"),
        delete("pods/$ns/q"),
    ),
    uncounted(
        "an ended pod with a template at the start",
        "RC-21, Q-1, D-1",
        before=(template(), pod(), status("pods/$ns/p", {"phase": "Succeeded"})),
        differs=("resourceclaim g",),
    ),
    uncounted(
        "a claim and a pod that are being deleted before it is made",
        "RC-35.1, T-17, T-18",
        pod("no-entries"),
        before=(pod(held=True), *held(["p"]), template()),
    ),
    story("a restart makes nothing anew", "RC-7", Quiet(), *RESTART, before=(template(), pod())),
)
