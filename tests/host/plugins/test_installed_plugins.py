"""The installed plugins, as commands list them."""

from host.plugins.conftest import Site

from kcm_host.cli.installed import listed
from kcm_host.plugins.finder import find
from kcm_host.plugins.hookimpls import CONTROLLER
from kcm_host.plugins.loader import load


def test_every_installed_plugin_is_listed_with_its_state(site: Site, good: str) -> None:
    """Valid and broken ones appear in order, each with its facts."""
    site.plugin("good", good, metadata="Summary: Does good.\n")
    site.plugin("bad", "raise SystemExit")
    site.distribution("acme-x", "shared = nothing:X")
    site.distribution("acme-y", "shared = nothing:Y")
    candidates = [one for one in find(CONTROLLER.group) if one.distribution.startswith("acme-")]
    loading = load(candidates, {one.name for one in candidates}, host_version="0.2.0")
    bad, fine, x, y = listed(candidates, loading, CONTROLLER)
    assert [one.name for one in (bad, fine, x, y)] == ["bad", "good", "shared", "shared"]
    assert (fine.state, fine.summary, fine.version) == ("ok", "Does good.", "1.0")
    assert fine.hooks == ("kcm_status", "kcm_sync", "kcm_watches")
    assert fine.settings_model is None
    assert (bad.state, bad.hooks, bad.role) == ("quarantined", (), "controller")
    assert bad.problem is not None
    assert "SystemExit" in bad.problem.reason
    assert [one.distribution for one in (x, y)] == ["acme-x", "acme-y"]
    assert {x.state, y.state} == {"quarantined"}
