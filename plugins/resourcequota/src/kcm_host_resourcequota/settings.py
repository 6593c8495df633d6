"""The settings of the controller."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from kcm_host.api import Duration, Settings

NotNegative = Annotated[Duration, Field(ge=timedelta(0))]


class QuotaSettings(Settings):
    """The settings; `{}` means all defaults."""

    resync_period: NotNegative = Field(
        default=timedelta(minutes=5),
        description="Every quota is synced, and every record audited, once in this time; 0: never.",
    )
    settle_time: NotNegative = Field(
        default=timedelta(seconds=10),
        description="How long usage without objects stays unchanged before it is subtracted.",
    )
