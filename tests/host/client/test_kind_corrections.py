"""A declared kind is compared with what is served, and the right word is told (F-67)."""

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from kcm_host.api import Kind
from kcm_host.api.kinds import Resource
from kcm_host.client.discovery import APIResources

WEBSITE = Kind(group="acme.example", version="v1", name="Website", resource="websites")
ZONE = Kind(group="", version="v1", name="Zone", resource="zones", namespaced=False)


@dataclass
class Case:
    """A declared kind, and what is told."""

    declared: Kind
    told: str


CASES = {
    "right": Case(WEBSITE, ""),
    "right without a namespace": Case(ZONE, ""),
    "a wrong plural": Case(
        replace(WEBSITE, resource="websits"),
        "'websits.acme.example' is not served, but 'websites.acme.example' of kind Website is: "
        "correct the resource of the Kind",
    ),
    "a wrong name": Case(
        replace(WEBSITE, name="Site"),
        "'websites.acme.example' is served as kind Website, not Site: correct the name of the Kind",
    ),
    "said to be without a namespace": Case(
        replace(WEBSITE, namespaced=False),
        "objects of 'websites.acme.example' have a namespace: write namespaced=True in the Kind",
    ),
    "said to have a namespace": Case(
        replace(ZONE, namespaced=True),
        "objects of 'zones' have no namespace: write namespaced=False in the Kind",
    ),
    "nothing of it is served": Case(replace(WEBSITE, resource="shops", name="Shop"), ""),
    "another version": Case(replace(WEBSITE, version="v2", resource="websits"), ""),
    "another group": Case(replace(WEBSITE, group="other.example"), ""),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_wrong_with_a_kind_is_told(case: Case) -> None:
    """Only what is known to be wrong: the rest may be installed later."""
    served = (
        Resource(kind=kind, verbs=frozenset({"list"}), preferred=True) for kind in (WEBSITE, ZONE)
    )
    assert APIResources(served).correction(case.declared) == case.told
