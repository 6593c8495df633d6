"""What a controller says of itself before it runs."""

from datetime import timedelta

import msgspec


class ControllerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """
    What the host has to know of a controller before there is an instance.

    Every field may be left out.
    """

    #: Other names that configuration, variables and flags may use for it.
    aliases: tuple[str, ...] = ()
    #: The service account as which it writes with `serviceAccountCredentials`; empty: its name.
    service_account: str = ""
    #: The label `name` of its `workqueue_*` metrics; empty: its name.
    queue_name: str = ""
    #: How many syncs may run at the same time if the configuration does not say it.
    workers: int = 5
    #: After this time a sync is cancelled and retried.
    sync_timeout: timedelta = timedelta(seconds=60)
