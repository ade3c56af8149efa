"""The use of GPUs, of the key's user or of all."""

from collections.abc import Sequence
from datetime import datetime

from beacon_client.runner_http import RunnerHttp
from beacon_contracts.usage import UsageReport


async def fetch_usage(
    http: RunnerHttp,
    path: str,
    group_by: Sequence[str],
    start: datetime | None,
    end: datetime | None,
    *,
    user: str | None = None,
) -> UsageReport:
    """Sums per hour, user, model or other groups, from `start` to `end`."""
    wanted = {
        "user": user,
        "group_by": list(group_by) or None,
        "from": start and start.isoformat(),
        "to": end and end.isoformat(),
    }
    return UsageReport.model_validate_json(await http.get(path, wanted))
