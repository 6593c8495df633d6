"""Controllers have the names of their entry points, whichever alias is written."""

import pytest
from host.config.conftest import Load, Problems

from kcm_host import __version__
from kcm_host.cli.installed import controller_names
from kcm_host.plugins.finder import find
from kcm_host.plugins.hookimpls import CONTROLLER
from kcm_host.plugins.loader import load as load_plugins
from kcm_host.runtime.bootstrap import is_other_upstream_controller

NAMES = ("clusterrole-aggregation", "resourceclaim", "resourcequota", "servicecidrs", "ttl")
ALIASES = {
    "ttl-controller": "ttl",
    "clusterrole-aggregation-controller": "clusterrole-aggregation",
    "service-cidr-controller": "servicecidrs",
    "service-cidrs-controller": "servicecidrs",
    "resourceclaim-controller": "resourceclaim",
    "resource-claim-controller": "resourceclaim",
    "resourcequota-controller": "resourcequota",
}


@pytest.mark.parametrize(("alias", "short"), ALIASES.items(), ids=ALIASES)
def test_alias_means_the_name(load: Load, alias: str, short: str) -> None:
    """A controller under an upstream name is loaded under its own one (H-16, design 2)."""
    names = controller_names()
    assert names.name_of(alias) == short
    assert alias in names.spellings(short)
    loaded = load(f"controllers: {{{alias}: {{workers: 3}}}}")
    assert list(loaded.settings.controllers) == [short]


@pytest.mark.parametrize("name", [*NAMES, "backup", "TTL"])
def test_other_names_stay_as_they_are(load: Load, name: str) -> None:
    """Names of entry points and unknown names are taken as written (design 2)."""
    assert list(load(f"controllers: {{{name}: }}").settings.controllers) == [name]


def test_two_aliases_of_one_controller_are_an_error(problems: Problems) -> None:
    """Two upstream names of one controller are refused like alias and short name (design 7)."""
    text = "controllers: {service-cidr-controller: , service-cidrs-controller: }"
    [problem] = problems(text)
    assert "best 'servicecidrs'" in problem


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("job-controller", True),
        ("podgc", True),
        ("svm", True),
        ("service-lb-controller", True),
        ("ttl", False),
        ("ttl-controller", False),
        ("resource-claim-controller", False),
        ("backup", False),
    ],
)
def test_other_controllers_of_the_reference_are_known(name: str, known: bool) -> None:
    """Names of kube-controller-manager are distinguished from typing errors (H-16)."""
    assert is_other_upstream_controller(name) is known


@pytest.mark.parametrize(
    ("name", "account"),
    [
        ("clusterrole-aggregation", "clusterrole-aggregation-controller"),
        ("resourceclaim", "resource-claim-controller"),
        ("resourcequota", "resourcequota-controller"),
        ("servicecidrs", "service-cidrs-controller"),
        ("ttl", "ttl-controller"),
    ],
)
def test_controllers_have_the_references_service_accounts(name: str, account: str) -> None:
    """Their roles are made by every API server (TTL-2, CRA-3, SC-2, RC-1, RQ-2)."""
    loaded = load_plugins(find(CONTROLLER.group), [name], host_version=__version__)
    assert loaded.plugins[name].info.service_account == account
