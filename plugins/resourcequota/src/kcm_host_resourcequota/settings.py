"""The settings of the controller."""

from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from kcm_host.api import Duration

NotNegative = Annotated[Duration, Field(ge=timedelta(0))]


class Settings(BaseModel):
    """The settings; `{}` means all defaults."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)

    resync_period: NotNegative = Field(
        default=timedelta(minutes=5),
        description="Every quota is synced, and every record audited, once in this time; 0: never.",
    )
    settle_time: NotNegative = Field(
        default=timedelta(seconds=10),
        description="How long usage without objects stays unchanged before it is subtracted.",
    )
