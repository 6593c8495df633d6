"""Whether a plugin was made for this version of the host."""

from packaging.requirements import InvalidRequirement, Requirement

from kcm_host.loading.finder import Candidate
from kcm_host.loading.quarantine import Fault


def check_host_version(candidate: Candidate, host_version: str) -> None:
    """
    Raise `Fault` when the plugin's distribution demands another version of `kcm-host`.

    Prereleases of the host count like any version. No demand at all is accepted.
    """
    for text in candidate.requires:
        demand = _parsed(text)
        applies = demand.marker is None or demand.marker.evaluate({"extra": ""})
        if applies and not demand.specifier.contains(host_version, prereleases=True):
            raise Fault(
                f"it needs 'kcm-host{demand.specifier}', and this host is {host_version}",
                f"install a version of {candidate.distribution!r} made for kcm-host "
                f"{host_version}, or a kcm-host that fits",
            )


def _parsed(text: str) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise Fault(
            f"its requirement {text!r} is no valid one",
            "correct 'dependencies' in its pyproject.toml",
        ) from error
