"""Names and content of claims made from templates."""

import copy
from typing import Any

import msgspec
import pytest
from plugins.resourceclaim.objects import claim_spec
from plugins.tables import row

from kcm_host.api import Key
from kcm_host_resourceclaim.models.claim import ClaimSpec, Template
from kcm_host_resourceclaim.models.pod import POD, POD_GROUPS
from kcm_host_resourceclaim.pod_reconciler import generate_name, new_claim


@pytest.mark.parametrize(
    ("owner", "entry", "expected"),
    [
        row("short", "p", "res", "p-res-"),
        row("T-31: just fits", "p" * 30, "e" * 25, f"{'p' * 30}-{'e' * 25}-"),
        row("T-31: shrinks", "p" * 40, "e" * 20, f"{'p' * 36}-{'e' * 18}"),
        row("one too many", "p" * 31, "e" * 25, f"{'p' * 30}-{'e' * 24}"),
        row("the longest", "p" * 253, "e" * 63, f"{'p' * 45}-{'e' * 11}"),
        row("D-12, Q-13: one of the owner stays", "p", "e" * 55, f"p-{'e' * 53}"),
        row("D-12: one of the entry stays", "p" * 253, "e", f"{'p' * 55}-e"),
    ],
)
def test_generated_names_fit(owner: str, entry: str, expected: str) -> None:
    """The base is at most 57 characters, both parts in proportion and never empty (RC-45)."""
    base = generate_name(owner, entry)
    assert base == expected
    assert len(base) <= 57
    assert not base.startswith("-")


def template(manifest: Any) -> Template:
    """Return a template as the host decodes it."""
    return msgspec.json.decode(msgspec.json.encode(manifest), type=Template)


TEMPLATE: Any = {
    "metadata": {"name": "t", "labels": {"own": "label"}, "annotations": {"own": "annotation"}},
    "spec": {
        "metadata": {
            "labels": {"a": "b"},
            "annotations": {"x": "y", "resource.kubernetes.io/pod-claim-name": "wrong"},
        },
        "spec": claim_spec() | {"unknown": {"stays": [1, 2.5, None]}},
    },
}


def test_the_claim_of_a_pod() -> None:
    """Name, labels, annotations, one owner and the spec; nothing else (T-2, RC-44)."""
    body = new_claim(
        template(TEMPLATE), pod_claim_name="res", kind=POD, owner=Key("p", "ns"), uid="u-p"
    )
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-p", "controller": True}
    assert msgspec.json.decode(msgspec.json.encode(body)) == {
        "metadata": {
            "generateName": "p-res-",
            "labels": {"a": "b"},
            "annotations": {"x": "y", "resource.kubernetes.io/pod-claim-name": "res"},
            "ownerReferences": [owner],
        },
        "spec": TEMPLATE["spec"]["spec"],
    }


def test_the_claim_of_a_group() -> None:
    """The same with the group as owner, in the version in use (RC-53)."""
    kind = POD_GROUPS[-1]
    body = new_claim(
        template(TEMPLATE), pod_claim_name="res", kind=kind, owner=Key("g", "ns"), uid="u-g"
    )
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"]) == ("scheduling.k8s.io/v1alpha2", "PodGroup")
    assert body["metadata"]["generateName"] == "g-res-"


def test_the_template_stays_as_it_is() -> None:
    """A claim made from it does not change the cached template (T-2, RC-44)."""
    found = template(TEMPLATE)
    before = copy.deepcopy(found)
    body = new_claim(found, pod_claim_name="res", kind=POD, owner=Key("p", "ns"), uid="u-p")
    body["metadata"]["annotations"]["more"] = "here"
    assert found == before


def test_a_template_without_labels_gives_none() -> None:
    """No labels are no key, and the annotation is there all the same (RC-44)."""
    plain = template({"metadata": {}, "spec": {"spec": claim_spec()}})
    metadata = new_claim(plain, pod_claim_name="res", kind=POD, owner=Key("p", "ns"), uid="u")[
        "metadata"
    ]
    assert "labels" not in metadata
    assert metadata["annotations"] == {"resource.kubernetes.io/pod-claim-name": "res"}


@pytest.mark.parametrize(
    ("spec", "admin", "alternatives"),
    [
        row("no devices", {}, False, False),
        row("plain", claim_spec(), False, False),
        row("v1 and v1beta2", claim_spec(admin=True), True, False),
        row("T-83: v1beta1", claim_spec(admin=True, flat=True), True, False),
        row("prioritized list", claim_spec(alternatives=True), False, True),
        row(
            "alternatives cannot ask for it",
            {"devices": {"requests": [{"firstAvailable": [{"adminAccess": True}]}]}},
            False,
            True,
        ),
        row(
            "any request",
            {"devices": {"requests": [{"exactly": {}}, {"exactly": {"adminAccess": True}}]}},
            True,
            False,
        ),
    ],
)
def test_what_a_spec_asks_for(spec: Any, admin: bool, alternatives: bool) -> None:
    """Admin access at the request itself, in every version; prioritized lists (RC-41, RC-87)."""
    found = msgspec.convert(spec, ClaimSpec)
    assert (found.has_admin_access, found.has_prioritized_list) == (admin, alternatives)
