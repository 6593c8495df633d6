"""Which Kubernetes release the kit runs, and where its binaries are kept."""

import hashlib
import os
import re
from pathlib import Path

MODULE = Path(__file__).parent / "kube"
"""The folder of `go.mod` and `go.sum`: another release is a change there and nowhere else."""

PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
"""Each binary with the Go package it is built from, in the order of building."""


def kubernetes_version() -> str:
    """The release that `go.mod` requires, for example `v1.36.3`."""
    return _required(r"^(?:require)?\s*k8s\.io/kubernetes (v\S+)", "requires k8s.io/kubernetes")


def go_version() -> str:
    """The lowest Go version that `go.mod` accepts, for example `1.26.0`."""
    return _required(r"^go (\S+)", "has a go line")


def cache_home() -> Path:
    """The folder for everything the kit keeps between runs; `XDG_CACHE_HOME` moves it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kcm-host"


def binaries_folder() -> Path:
    """Where the binaries of this `go.mod` and `go.sum` belong, whether built or not."""
    digest = hashlib.sha256((MODULE / "go.sum").read_bytes()).hexdigest()[:12]
    return cache_home() / "kube" / f"{kubernetes_version()}-{digest}"


def missing_binaries() -> list[str]:
    """The names of the binaries that are not built yet."""
    folder = binaries_folder()
    return [name for name in PACKAGES if not (folder / name).is_file()]


def _required(pattern: str, what: str) -> str:
    found = re.search(pattern, (MODULE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"no line of '{MODULE / 'go.mod'}' {what}; restore it from the release")
    return found[1]
