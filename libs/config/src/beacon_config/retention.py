"""The section [retention]."""

from pydantic import Field

from beacon_config.section import RESTART, PositiveSeconds, Section


class RetentionConfig(Section):
    """How long data is kept."""

    check_every_s: PositiveSeconds = Field(
        default=300.0, description="Interval at which expired data is deleted", json_schema_extra=RESTART
    )
    events_s: PositiveSeconds = Field(default=604_800.0, description="How long events are kept")
    idempotency_s: PositiveSeconds = Field(default=86_400.0, description="How long idempotency keys are kept")
    jobs_s: PositiveSeconds = Field(default=2_592_000.0, description="How long finished jobs are kept")
    webhooks_s: PositiveSeconds = Field(
        default=2_592_000.0, description="How long deliveries of webhooks are kept"
    )
