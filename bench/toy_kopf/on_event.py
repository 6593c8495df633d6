"""The toy controller in kopf, with the least that kopf can do: it compares, and copies."""

from typing import Any

import kopf

SEEN = "toy.example.org/seen"


# Such a handler compares the states as they are, like a plugin of ours, and stores nothing itself.
# An async one runs in the event loop; others go through a pool of threads.
@kopf.on.event("configmaps")
async def repeat(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
    """Patch the annotation of one ConfigMap if it is not the value."""
    desired = body.get("data", {}).get("value")
    if desired is not None and body.metadata.annotations.get(SEEN) != desired:
        patch.metadata.annotations[SEEN] = desired
