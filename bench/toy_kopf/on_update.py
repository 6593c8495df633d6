"""The toy controller in kopf as in its walkthrough: it is called for a new value of the field."""

from typing import Any

import kopf

SEEN = "toy.example.org/seen"


# Such handlers are retried when they fail, and keep what they handled last in an annotation. An
# object without it counts as created, also one from before the start.
@kopf.on.create("configmaps", field="data.value")
@kopf.on.update("configmaps", field="data.value")
async def repeat(new: str, patch: kopf.Patch, **_: Any) -> None:
    """Patch the annotation of one ConfigMap whose value is new."""
    patch.metadata.annotations[SEEN] = new
