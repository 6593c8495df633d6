"""What the controller follows, and how it finds things there (RC-8 to RC-14)."""

from functools import partial

from kcm_host.api import AnyWatch, Key, Watch
from kcm_host_resourceclaim.claim import Claim
from kcm_host_resourceclaim.entries import Holder, claim_names, template_names
from kcm_host_resourceclaim.known import BY_CLAIM, BY_GROUP, BY_JUDGE, BY_OWNER, BY_TEMPLATE
from kcm_host_resourceclaim.memory import Memory
from kcm_host_resourceclaim.owners import judge_values, owner_values
from kcm_host_resourceclaim.pod import POD, Pod
from kcm_host_resourceclaim.podgroup import PodGroup
from kcm_host_resourceclaim.served import Api
from kcm_host_resourceclaim.template import Template
from kcm_host_resourceclaim.wakeups import CLAIM_KEY, GROUP_KEY, POD_KEY, Wakeups


def watches_of(api: Api, memory: Memory) -> list[AnyWatch]:
    """Give the watches; PodGroups are among them when they are switched on and served (RC-4)."""
    wakeups = Wakeups(api, memory, watches=3 if api.groups is None else 4)
    by_reference = {BY_CLAIM: _claims, BY_TEMPLATE: _templates}
    watches: list[AnyWatch] = [
        Watch(
            kind=POD,
            model=Pod,
            keys=wakeups.pod,
            synced=wakeups.synced,
            indexes={**by_reference, **({BY_GROUP: _group} if api.groups is not None else {})},
            resync=partial(_queued_as, POD_KEY),
        ),
        Watch(
            kind=api.claims,
            model=Claim,
            keys=wakeups.claim,
            synced=wakeups.synced,
            indexes={BY_OWNER: owner_values, BY_JUDGE: judge_values},
            whole=True,
            resync=partial(_queued_as, CLAIM_KEY),
        ),
        Watch(kind=api.templates, model=Template, keys=wakeups.template, synced=wakeups.synced),
    ]
    if api.groups is not None:
        watches.append(
            Watch(
                kind=api.groups,
                model=PodGroup,
                keys=wakeups.group,
                synced=wakeups.synced,
                indexes=by_reference if api.group_claims else {},
                # Without the switch PodGroups are followed for their pods' sake, and are no keys.
                resync=partial(_queued_as, GROUP_KEY) if api.group_claims else None,
            )
        )
    return watches


def _queued_as(kind: str, key: Key) -> Key:
    """Give the key of the work queue for an object."""
    return Key(key.name, key.namespace, kind)


def _claims(key: Key, holder: Holder) -> tuple[str, ...]:
    return tuple(f"{key.namespace}/{name}" for name in claim_names(holder))


def _templates(key: Key, holder: Holder) -> tuple[str, ...]:
    return tuple(f"{key.namespace}/{name}" for name in template_names(holder))


def _group(key: Key, pod: Pod) -> tuple[str, ...]:
    return (f"{key.namespace}/{pod.group_name}",) if pod.group_name else ()
