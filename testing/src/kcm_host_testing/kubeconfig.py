"""Kubeconfig files, written and nothing else."""

import json
from pathlib import Path


def write(path: Path, *, url: str, user: str, token: str, ca_file: Path | None) -> Path:
    """
    Write a kubeconfig with one cluster, one user and one context; returns the path.

    JSON, which is YAML to every reader. `ca_file` is None for a plain HTTP address.
    """
    cluster = {"server": url}
    if ca_file is not None:
        cluster["certificate-authority"] = str(ca_file)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        "current-context": "test",
    }
    path.write_text(json.dumps(config, indent=2))
    path.chmod(0o600)
    return path
