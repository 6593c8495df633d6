"""Kubernetes Events of the core group, and the requests that make and repeat them."""

import re
import uuid
from collections.abc import Hashable
from datetime import UTC, datetime
from typing import Any

import msgspec

from kcm_host.api.kinds import Key, Kind
from kcm_host.api.writes import EVENT, Write
from kcm_host.client.rest import JSON
from kcm_host.sync.requests import STRATEGIC_MERGE, encode

#: Where Events about objects without a namespace are kept (IQ-121).
CLUSTER_NAMESPACE = "default"
LONGEST_NAME = 253

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)


class Remark(msgspec.Struct, frozen=True, gc=False):
    """
    What users are to be told about an object, at one moment.

    `at` is in nanoseconds since the epoch; `version` is the resourceVersion that was seen.
    """

    kind: Kind
    key: Key
    uid: str
    version: str
    reason: str
    message: str
    warning: bool
    component: str
    at: int

    @property
    def type(self) -> str:
        """`Warning` or `Normal`."""
        return "Warning" if self.warning else "Normal"

    @property
    def source(self) -> Hashable:
        """Who says something of this type about which object: what the spam filter goes by."""
        kind = (self.kind.api_version, self.kind.name)
        return self.component, kind, self.key.namespace, self.key.name, self.uid, self.warning

    @property
    def group(self) -> Hashable:
        """All but the message: what remarks that differ in words alone have in common."""
        return self.source, self.reason


class Event(msgspec.Struct, frozen=True, gc=False):
    """One Event as it is to be on the server: the remark it says last, and how often by now."""

    remark: Remark
    name: str
    count: int
    #: When it was first said, in nanoseconds since the epoch.
    first: int

    @property
    def key(self) -> Key:
        """Name and namespace of the Event itself."""
        return Key(self.name, self.remark.key.namespace or CLUSTER_NAMESPACE)

    def create(self) -> Write:
        """Give the request that makes it (IQ-121)."""
        return Write(EVENT, self.key, "create", encode(self._body()), JSON)

    def repeat(self) -> Write:
        """Give the request that brings an older state of it up to this one (IQ-124)."""
        return Write(EVENT, self.key, "patch", encode(self._repeated()), STRATEGIC_MERGE)

    def _body(self) -> dict[str, Any]:
        remark = self.remark
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.name,
            "metadata": {"name": self.name, "namespace": self.key.namespace},
            "involvedObject": _reference(remark),
            "type": remark.type,
            "reason": remark.reason,
            "firstTimestamp": rfc3339(self.first),
            **self._repeated(),
            "source": {"component": remark.component},
            "reportingComponent": remark.component,
            "reportingInstance": "",
        }

    def _repeated(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "lastTimestamp": rfc3339(self.remark.at),
            "message": self.remark.message,
        }


def first_event(remark: Remark) -> Event:
    """Give the Event that says a remark for the first time."""
    return Event(remark, event_name(remark.key.name, remark.at), 1, remark.at)


def event_name(name: str, at: int) -> str:
    """
    Give the name of an Event about an object called `name`: that and the time in hex.

    Objects may have names that an Event cannot have (`system:node`): then it is a UUID (IQ-121).
    """
    wanted = f"{name}.{at:x}"
    if len(wanted) <= LONGEST_NAME and _SUBDOMAIN.fullmatch(wanted):
        return wanted
    return str(uuid.uuid5(uuid.NAMESPACE_URL, wanted))


def rfc3339(at: int) -> str:
    """Give a time as the API writes it, to the second."""
    return datetime.fromtimestamp(at // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _reference(remark: Remark) -> dict[str, str]:
    fields = {
        "apiVersion": remark.kind.api_version,
        "kind": remark.kind.name,
        "namespace": remark.key.namespace,
        "name": remark.key.name,
        "uid": remark.uid,
        "resourceVersion": remark.version,
    }
    return {name: value for name, value in fields.items() if value}
