"""What the calculation needs to know of one resource: an evaluator."""

from typing import Any, Protocol

import msgspec

from kcm_host.api import Key, Kind, View
from kcm_host_resourcequota.selection import Requirement
from kcm_host_resourcequota.usage import Contribution, Vector


class Evaluator(Protocol):
    """
    Knows which names of a quota one resource serves and what one of its objects uses of them.

    Everything is pure: the same object, view and instant give the same answer. Evaluators hold no
    objects; what `ClaimEvaluator` knows of device classes is given to it.
    """

    @property
    def resource(self) -> str:
        """The resource and its group: `pods`, `widgets.example.com`."""

    @property
    def kind(self) -> Kind:
        """What to follow."""

    @property
    def model(self) -> type[msgspec.Struct]:
        """What is read of each object."""

    def serves(self, name: str) -> bool:
        """Say whether the usage of these objects counts under a name of a quota (RQ-60)."""

    def contribution(self, key: Key, obj: Any, view: View, now: float) -> Contribution:
        """
        Give what an object, an instance of `model`, uses at `now` (Unix seconds).

        It may hold names that no `serves` admits, and never holds one twice. Only resource claims
        look into `view`, at the pod they belong to and at that pod's other claims.
        """

    def matches(self, vector: Vector, requirement: Requirement) -> bool:
        """
        Say whether objects with this vector meet one requirement of a quota (RQ-72, RQ-76).

        A malformed requirement has no meaning here; ask only of a well-formed selection.
        """
        return vector.meets(requirement)

    def deadline(self, obj: Any) -> float | None:
        """
        Give the instant (Unix seconds) after which the contribution changes without an event.

        At the instant itself it has not changed yet (RQ-108). None: it never does.
        """
        return None
