"""Administration: queues, dead letters, users, keys, audit log. Needs an administrator's key."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from urllib.parse import quote

from beacon_client.errors import BeaconError
from beacon_client.runner_http import RunnerHttp
from beacon_client.usage import fetch_usage
from beacon_contracts.accounts import (
    CreditChange,
    DisabledJobs,
    KeyCreated,
    KeyList,
    KeyView,
    NewKey,
    NewUser,
    UserChange,
    UserCreated,
    UserPage,
    UserView,
)
from beacon_contracts.audit import AuditAction, AuditEntryView, AuditPage
from beacon_contracts.demand import GpuDemand
from beacon_contracts.model import RequestModel
from beacon_contracts.operations import OperationView
from beacon_contracts.problem import Problem
from beacon_contracts.queue_admin import (
    AffectedCount,
    DeadLetterChoice,
    DeadLetterPage,
    DeadLetterView,
    RuntimeStats,
)
from beacon_contracts.tiers import JobClass, Tier
from beacon_contracts.usage import UsageReport

PAGE = 100
DEAD_LETTERS = "/admin/queue-dead"


class AdminClient:
    """Queues, dead letters, users, keys and audit log, over the connection of its `RunnerClient`."""

    def __init__(self, http: RunnerHttp) -> None:
        self._http = http

    async def stats(self) -> RuntimeStats:
        """Depths, lanes, leases and outbox lag."""
        return RuntimeStats.model_validate_json(await self._http.get("/admin/runtime/stats"))

    async def usage(
        self,
        *,
        user: str | None = None,
        group_by: Sequence[str] = (),
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> UsageReport:
        """Runs, GPU seconds and tokens of all users, or of one."""
        return await fetch_usage(self._http, "/admin/usage", group_by, start, end, user=user)

    async def demand(
        self, *, models: Sequence[str] = (), regions: Sequence[str] = (), target_wait_s: float = 60.0
    ) -> GpuDemand:
        """The work for GPUs by model and region; also for keys with the scope `service`."""
        wanted = {"model": list(models), "region": list(regions), "target_wait_s": target_wait_s}
        return GpuDemand.model_validate_json(await self._http.get("/admin/demand", wanted))

    async def pause(self, job_class: JobClass) -> None:
        """Stop consumption of a class: its jobs are accepted and wait."""
        await self._http.post(f"/admin/queues/{job_class}/pause", repeatable=True)

    async def resume(self, job_class: JobClass) -> None:
        """Start consumption of a class again."""
        await self._http.post(f"/admin/queues/{job_class}/resume", repeatable=True)

    async def reset_lanes(self) -> None:
        """Recount the lane counters from the messages in Redis."""
        await self._http.post("/admin/lanes/reset", repeatable=True)

    async def dead_letters(self, *, page_size: int = PAGE) -> AsyncIterator[DeadLetterView]:
        """All dead letters, newest first; pages are fetched on demand."""
        parse = DeadLetterPage.model_validate_json
        async for page in self._http.pages(DEAD_LETTERS, parse, {"limit": page_size}):
            for dead_letter in page.dead_letters:
                yield dead_letter

    async def dead_letter_page(self, *, limit: int = PAGE, cursor: str | None = None) -> DeadLetterPage:
        """One page of dead letters, newest first."""
        answer = await self._http.get(DEAD_LETTERS, {"limit": limit, "cursor": cursor})
        return DeadLetterPage.model_validate_json(answer)

    async def requeue(self, job_ids: Sequence[str] | None = None) -> int:
        """Requeue these dead letters, or all, with fresh attempts. Returns their number."""
        return await self._change_dead("requeue", job_ids)

    async def purge(self, job_ids: Sequence[str] | None = None) -> int:
        """Remove these dead letters, or all; the jobs stay readable. Returns their number."""
        return await self._change_dead("purge", job_ids)

    async def users(self) -> AsyncIterator[UserView]:
        """All users; pages are fetched on demand."""
        async for page in self._http.pages("/admin/users", UserPage.model_validate_json, {"limit": PAGE}):
            for user in page.users:
                yield user

    async def add_user(self, name: str, tier: Tier | None = None) -> UserCreated:
        """Create a user, by default in the lowest tier, with a first key, which is returned only here."""
        answer = await self._http.post("/admin/users", _body(NewUser(name=name, tier=tier)))
        return UserCreated.model_validate_json(answer)

    async def change_user(
        self,
        user_id: str,
        *,
        tier: Tier | None = None,
        disabled: bool | None = None,
        weight: float | None = None,
        jobs: DisabledJobs | None = None,
    ) -> UserView:
        """Change a user's tier or weight, or disable or enable the user. `jobs`: hold or cancel live jobs."""
        change = UserChange(tier=tier, weight=weight, disabled=disabled, jobs=jobs)
        answer = await self._http.post(_user(user_id), _body(change), repeatable=True)
        return UserView.model_validate_json(answer)

    async def delete_user(self, user_id: str) -> OperationView:
        """Delete a user with all jobs, files and keys; an operation does it."""
        return OperationView.model_validate_json(await self._http.delete(_user(user_id)))

    async def give_credit(self, user_id: str, amount: int, note: str = "") -> None:
        """Add credit, or take it with a negative amount."""
        await self._http.post(f"{_user(user_id)}/credit", _body(CreditChange(amount=amount, note=note)))

    async def keys(self, user_id: str) -> list[KeyView]:
        """A user's keys, without the secrets."""
        return KeyList.model_validate_json(await self._http.get(f"{_user(user_id)}/keys")).keys

    async def add_key(self, user_id: str, key: NewKey) -> KeyCreated:
        """Create a key, which is returned only here."""
        answer = await self._http.post(f"{_user(user_id)}/keys", _body(key))
        return KeyCreated.model_validate_json(answer)

    async def rotate_key(self, user_id: str, key_id: str) -> KeyCreated:
        """Replace a key by a new one with its name and scopes, which is returned only here.

        The old key is revoked last: if a call fails in between, the user still has a valid key.
        """
        old = next((key for key in await self.keys(user_id) if key.id == key_id), None)
        if old is None or old.revoked_at is not None:
            detail = "this user has no such key, or it is revoked"
            raise BeaconError(Problem(title="Not found", status=404, code="unknown_key", detail=detail))
        made = await self.add_key(user_id, NewKey(name=old.name, scopes=old.scopes))
        await self.revoke_key(user_id, key_id)
        return made

    async def revoke_key(self, user_id: str, key_id: str) -> None:
        """Revoke a key."""
        await self._http.delete(f"{_user(user_id)}/keys/{quote(key_id, safe='')}")

    async def audit(
        self,
        *,
        actor: str | None = None,
        action: AuditAction | None = None,
        target: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> AsyncIterator[AuditEntryView]:
        """The entries of the audit log, newest first; pages are fetched on demand. `actor`: id of a user."""
        wanted = {
            "actor": actor,
            "action": action,
            "target": target,
            "since": since and since.isoformat(),
            "until": until and until.isoformat(),
        }
        async for page in self._http.pages("/admin/audit", AuditPage.model_validate_json, wanted):
            for entry in page.entries:
                yield entry

    async def _change_dead(self, verb: str, job_ids: Sequence[str] | None) -> int:
        choice = DeadLetterChoice(job_ids=None if job_ids is None else list(job_ids), all=job_ids is None)
        answer = await self._http.post(f"{DEAD_LETTERS}/{verb}", _body(choice), repeatable=True)
        return AffectedCount.model_validate_json(answer).count


def _user(user_id: str) -> str:
    return f"/admin/users/{quote(user_id, safe='')}"


def _body(model: RequestModel) -> bytes:
    return model.model_dump_json(exclude_none=True).encode()
