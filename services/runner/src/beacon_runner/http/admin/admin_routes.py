"""Routes for operators: queue depths, dead letters, pauses, lanes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from beacon_contracts.accounts import Scope
from beacon_contracts.audit import AuditAction
from beacon_contracts.ids import USER, JobId, decode_job_id, encode_id, encode_job_id
from beacon_contracts.model import ResponseModel
from beacon_contracts.queue_admin import (
    AffectedCount,
    ClassStats,
    DeadLetterChoice,
    DeadLetterPage,
    DeadLetterView,
    LaneStats,
    OutboxStats,
    RuntimeStats,
)
from beacon_contracts.tiers import JobClass
from beacon_http.replies import view_response
from beacon_runner.domain.accounts.audit import Actor
from beacon_runner.domain.errors import InvalidFieldsError
from beacon_runner.domain.jobs.dead_letters import DeadLetter, DeadLetterCursor
from beacon_runner.http.auth import ApiKeyCache, principal_of, require_scope
from beacon_runner.http.cursors import Cursor, PageSize, read_letter_cursor, show_letter_cursor
from beacon_runner.http.openapi import problems
from beacon_runner.ports.audit import AuditLog
from beacon_runner.ports.dead_letters import DeadLetterStore
from beacon_runner.ports.jobs import JobQueries
from beacon_runner.ports.outbox import Outbox
from beacon_runner.ports.pauses import PauseStore
from beacon_runner.ports.queue_admin import LaneCount, QueueAdmin


class PauseState(ResponseModel):
    name: JobClass
    paused: bool


class LaneCounts(ResponseModel):
    lane: str
    pending: int
    running: int


class LanesReset(ResponseModel):
    """The counters that were corrected, with their new values."""

    corrected: list[LaneCounts]


@dataclass(frozen=True, slots=True)
class Operations:
    queue: QueueAdmin
    outbox: Outbox
    dead_letters: DeadLetterStore
    pauses: PauseStore
    queries: JobQueries
    on_queued: Callable[[], None]
    audit: AuditLog

    async def stats(self) -> RuntimeStats:
        queue, lag = await self.queue.stats(), await self.outbox.lag()
        counts = await self.queries.counts()
        waiting = [one.oldest_s for one in counts if one.state == "queued" and one.oldest_s is not None]
        return RuntimeStats(
            main=sum(queue.waiting.values()),
            retry=queue.retry,
            dead=await self.dead_letters.count(),
            leases=queue.leased,
            outbox=OutboxStats(pending=lag.entries, lag_s=round(lag.oldest_s, 3)),
            oldest_age_s=round(max(waiting), 3) if waiting else None,
            classes=[
                ClassStats(
                    name=name,
                    waiting=queue.waiting.get(name, 0),
                    front=queue.front.get(name, 0),
                    paused=name in queue.paused,
                )
                for name in JobClass
            ],
            lanes=[
                LaneStats(
                    job_class=load.job_class, lane=load.lane, pending=load.pending, running=load.running
                )
                for load in queue.lanes
            ],
        )

    async def pause(self, job_class: JobClass, by: Actor) -> None:
        """Stored in Postgres first: if Redis is unavailable now, the reconciler updates it later."""
        await self.pauses.pause(job_class, by=by)
        await self.queue.pause(job_class)

    async def resume(self, job_class: JobClass, by: Actor) -> None:
        await self.pauses.resume(job_class, by=by)
        await self.queue.resume(job_class)

    async def dead_page(self, after: DeadLetterCursor | None, limit: int) -> DeadLetterPage:
        found = await self.dead_letters.page(after, limit + 1)
        next_cursor = show_letter_cursor(found[limit - 1].cursor) if len(found) > limit else None
        return DeadLetterPage(
            dead_letters=[_letter_view(letter) for letter in found[:limit]],
            total=await self.dead_letters.count(),
            next_cursor=next_cursor,
        )

    async def purge(self, jobs: Sequence[JobId] | None, by: Actor) -> int:
        removed = await self.dead_letters.purge(jobs, by=by)
        await self.queue.forget_dead(None if jobs is None else removed)
        return len(removed)

    async def requeue(self, jobs: Sequence[JobId] | None, by: Actor) -> int:
        requeued = await self.dead_letters.requeue(jobs, by=by)
        self.on_queued()
        await self.queue.forget_dead(requeued)
        return len(requeued)

    async def reset_lanes(self, by: Actor) -> Sequence[LaneCount]:
        """Recorded first: the counters are in Redis."""
        await self.audit.add(by, AuditAction.LANES_RESET, "lanes", {})
        return await self.queue.reset_lanes()


def _letter_view(letter: DeadLetter) -> DeadLetterView:
    return DeadLetterView(
        job_id=encode_job_id(letter.job),
        reason=letter.reason,
        failure=letter.failure,
        died_at=letter.died_at,
        stage=letter.stage,
        attempt=letter.attempt,
        user_id=encode_id(USER, letter.user),
        kind=letter.kind,
        name=letter.name,
        status=letter.state,
        priority=letter.job_class,
    )


def chosen_jobs(choice: DeadLetterChoice) -> list[JobId] | None:
    """The jobs that were given; None for all, which must be explicit."""
    if choice.all and choice.job_ids is None:
        return None
    if choice.all or choice.job_ids is None:
        raise InvalidFieldsError.of("job_ids", "must be given, or all: true, but not both")
    jobs: list[JobId] = []
    for number, text in enumerate(choice.job_ids):
        try:
            jobs.append(decode_job_id(text))
        except ValueError as error:
            raise InvalidFieldsError.of(f"job_ids[{number}]", str(error)) from None
    return jobs


def admin_routes(operations: Operations, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(prefix="/admin", tags=["operations"], route_class=require_scope(keys, Scope.ADMIN))

    @routes.get("/runtime/stats", responses={200: {"model": RuntimeStats}, **problems(401, 403, 503)})
    async def get_runtime_stats() -> Response:
        """Depth of main, retry and dead; per class and lane; leases; outbox lag; oldest age."""
        return view_response(await operations.stats())

    @routes.get("/queue-dead", responses={200: {"model": DeadLetterPage}, **problems(401, 403, 422, 503)})
    async def list_dead_letters(limit: PageSize = 100, cursor: Cursor = None) -> Response:
        """Dead letters, newest first, with reason and last error."""
        return view_response(await operations.dead_page(read_letter_cursor(cursor), limit))

    @routes.post(
        "/queue-dead/purge", responses={200: {"model": AffectedCount}, **problems(400, 401, 403, 422, 503)}
    )
    async def purge_dead_letters(request: Request, choice: DeadLetterChoice) -> Response:
        """Remove all, or those given. The jobs stay readable."""
        return view_response(
            AffectedCount(count=await operations.purge(chosen_jobs(choice), _actor(request)))
        )

    @routes.post(
        "/queue-dead/requeue", responses={200: {"model": AffectedCount}, **problems(400, 401, 403, 422, 503)}
    )
    async def requeue_dead_letters(request: Request, choice: DeadLetterChoice) -> Response:
        """Queue all, or those given, again with their attempts reset."""
        return view_response(
            AffectedCount(count=await operations.requeue(chosen_jobs(choice), _actor(request)))
        )

    @routes.post(
        "/queues/{job_class}/pause", responses={200: {"model": PauseState}, **problems(401, 403, 422, 503)}
    )
    async def pause_queue(request: Request, job_class: JobClass) -> Response:
        """Stop consumption of a class; running jobs continue."""
        await operations.pause(job_class, _actor(request))
        return view_response(PauseState(name=job_class, paused=True))

    @routes.post(
        "/queues/{job_class}/resume", responses={200: {"model": PauseState}, **problems(401, 403, 422, 503)}
    )
    async def resume_queue(request: Request, job_class: JobClass) -> Response:
        """Start consumption of a class again."""
        await operations.resume(job_class, _actor(request))
        return view_response(PauseState(name=job_class, paused=False))

    @routes.post("/lanes/reset", responses={200: {"model": LanesReset}, **problems(401, 403, 503)})
    async def reset_lanes(request: Request) -> Response:
        """Recount the lanes' counters from the messages."""
        corrected = await operations.reset_lanes(_actor(request))
        counts = [LaneCounts(lane=one.lane, pending=one.pending, running=one.running) for one in corrected]
        return view_response(LanesReset(corrected=counts))

    return routes


def _actor(request: Request) -> Actor:
    return principal_of(request).actor
