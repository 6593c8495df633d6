"""A controller that is named but not installed: which advice helps whom."""

from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import pytest
from host.cli.conftest import Cli, WriteFile

from kcm_host.plugins import finder

INSTALLED = "installed are: clusterrole-aggregation, ttl"
ADVICE = {
    "a typing error": ("ttll", "did you mean 'ttl'?"),
    "ours, not installed": ("servicecidrs", "install it: pip install kcm-host-servicecidrs"),
    "ours, like an installed one": (
        "resourceclaim",
        "install it: pip install kcm-host-resourceclaim",
    ),
    "ours, with a typing error": (
        "resorcequota",
        "did you mean 'resourcequota'? Then: pip install kcm-host-resourcequota",
    ),
    "only the reference has it": (
        "daemonset-controller",
        f"no plugin for it is known: leave it to kube-controller-manager; {INSTALLED}",
    ),
    "somebody else's": (
        "frobni",
        f"install the distribution that has it, or remove it; {INSTALLED}",
    ),
}


@pytest.fixture(autouse=True)
def small_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only two of our plugins are installed."""
    hidden = {f"kcm-host-{name}" for name in ("servicecidrs", "resourceclaim", "resourcequota")}

    def visible(**context: Any) -> list[Distribution]:
        return [one for one in distributions(**context) if one.metadata["Name"] not in hidden]

    monkeypatch.setattr(finder, "distributions", visible)


@pytest.mark.parametrize(("name", "advice"), ADVICE.values(), ids=ADVICE)
def test_the_advice_fits_the_name(
    cli: Cli, config: WriteFile, kubeconfig: WriteFile, name: str, advice: str
) -> None:
    """A close name is suggested; pip is named for our own distributions only (H-16, F-94)."""
    path = config(**{name: {}})
    result = cli("check", "-c", path, "--kubeconfig", kubeconfig())
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.endswith(f": controllers: no installed plugin is called '{name}'; {advice}")


def test_missing_plugins_are_told_in_the_order_of_the_file(
    cli: Cli, tmp_path: Path, kubeconfig: WriteFile
) -> None:
    """Each line has its place: file, line and column; extensions in a list too."""
    path = tmp_path / "kcm-host.yaml"
    path.write_text("controllers:\n  zeta: {}\n  alpha: {}\nextensions:\n  - beta\n")
    result = cli("check", "-c", path, "--kubeconfig", kubeconfig())
    places = [line.split(": ")[1] for line in result.stderr.splitlines()]
    assert places == [f"{path}:2:3", f"{path}:3:3", f"{path}:5:5"]


def test_an_upstream_name_runs_the_plugin(
    cli: Cli, config: WriteFile, kubeconfig: WriteFile
) -> None:
    """`ttl-controller` is `ttl` wherever a name is accepted (H-16)."""
    path = config(**{"ttl-controller": {}})
    result = cli("check", "-c", path, "--kubeconfig", kubeconfig())
    assert result.exit_code == 0
    assert cli("plugins", "info", "ttl-controller").exit_code == 0
