"""The log lines of syncs: hot keys, missed wake-ups, and at level debug every sync."""

import logging

from kcm_host.api.kinds import Key
from kcm_host.api.sync import SyncRecord, WriteRecord
from kcm_host.api.writes import Write
from kcm_host.workqueue.queue import Item
from kcm_host.workqueue.rate_limiter import HOT_SYNCS, HOT_WAIT_SECONDS, HOT_WINDOW_SECONDS

log = logging.getLogger(__name__)

MAX_CAUSES_SHOWN = 4
HOT_KEY_REMEDY = (
    "check whether its sync writes something new each time, or keys returns it for every change; "
    f"until then it waits {HOT_WAIT_SECONDS:g} s between its syncs"
)


def log_hot_key(controller: str, item: Item) -> None:
    """Log that a key is synced again and again, with the causes of this sync."""
    pairs = {
        "controller": controller,
        "key": str(item.key),
        "syncs": f"more than {HOT_SYNCS} in {HOT_WINDOW_SECONDS:g} s",
        "because": because(item),
        "remedy": HOT_KEY_REMEDY,
    }
    log.warning("key synced too often", extra={"kv": pairs})


def log_missed_wakeup(controller: str, key: Key, write: Write) -> None:
    """Log that only the periodic resync has led to this write."""
    pairs = {
        "controller": controller,
        "key": str(key),
        "write": f"{write.verb} {write.kind} '{write.key}'",
        "remedy": "report it to the author of the controller",
    }
    log.warning("wake-up missed, found by the periodic resync", extra={"kv": pairs})


def log_sync(record: SyncRecord, item: Item) -> None:
    """Log a sync that has ended, at level debug."""
    # Asked first: this is called for every sync, and the pairs are for level debug alone.
    if not log.isEnabledFor(logging.DEBUG):
        return
    pairs = {
        "controller": record.controller,
        "key": str(record.key),
        "outcome": record.outcome,
        "seconds": round(record.seconds, 6),
        "writes": len(record.writes),
        "because": because(item),
    }
    log.debug("sync ended", extra={"kv": pairs})


def log_write(controller: str, record: WriteRecord, subresource: str) -> None:
    """Log a write that was sent, at level debug; status 0 means that no response came."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    pairs = {
        "controller": controller,
        "verb": record.verb,
        "kind": f"{record.kind}/{subresource}" if subresource else record.kind,
        "object": record.object,
        "status": record.status,
        "seconds": round(record.seconds, 6),
    }
    log.debug("write sent", extra={"kv": pairs})


def because(item: Item) -> str:
    """Return the causes of a sync in one line: `updated nodes a, timer and 3 more`."""
    texts = [" ".join(filter(None, (one.reason, one.kind, one.object))) for one in item.causes]
    # Equal texts once: a relist gives many causes that differ in nothing that is shown.
    shown = list(dict.fromkeys(texts))[:MAX_CAUSES_SHOWN]
    more = item.merged - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
