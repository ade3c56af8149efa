"""The prices of a skip."""

from typing import Annotated

from pydantic import Field

from beacon_config.section import PositiveSeconds, Section


class SkipPrice(Section):
    """The price for a job of at most `up_to_s` seconds; the last price has no limit."""

    up_to_s: PositiveSeconds | None = Field(
        default=None, description="Longest duration of the job at this price; the last price has none"
    )
    price: Annotated[int, Field(ge=0, le=1_000_000)] = Field(description="Price in credits")


DEFAULT_SKIP_PRICES = [
    SkipPrice(up_to_s=10, price=1),
    SkipPrice(up_to_s=30, price=3),
    SkipPrice(up_to_s=60, price=5),
    SkipPrice(up_to_s=120, price=10),
    SkipPrice(price=15),
]
