"""The section [files]."""

from typing import Annotated

from pydantic import Field

from beacon_config.section import RESTART, FileBytes, PositiveSeconds, Section


class FilesConfig(Section):
    """Files of users. `BEACON_FILES_URL` is the address of the store that has their bytes."""

    max_bytes: FileBytes = Field(
        default=1_073_741_824, description="Largest size of one file", json_schema_extra=RESTART
    )
    upload_retention_s: PositiveSeconds = Field(
        default=86_400.0, description="Time after which an upload that no job uses is deleted"
    )
    url_expires_s: Annotated[int, Field(ge=1, le=604_800)] = Field(
        default=600, description="Lifetime of a signed address, which needs no key"
    )
