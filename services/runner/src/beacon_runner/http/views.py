"""Domain records as views of the API. Executions without a row yet are derived from the job's spec."""

from collections.abc import Sequence

from beacon_contracts.events import JobEvent
from beacon_contracts.ids import USER, JobId, encode_execution_id, encode_id, encode_job_id
from beacon_contracts.jobs import (
    AttemptView,
    ExecutionPage,
    ExecutionState,
    ExecutionView,
    JobState,
    JobSummary,
    JobView,
    Progress,
    SkipView,
)
from beacon_runner.application.jobs import ExecutionSlice, JobDetails, SkippedJob
from beacon_runner.domain.execution.plan import ExecutionKey
from beacon_runner.domain.jobs.records import (
    AttemptRecord,
    EventRecord,
    ExecutionRecord,
    JobHead,
    JobRecord,
    SentExecutions,
)
from beacon_runner.domain.jobs.states import LIVE

NONE_SENT = SentExecutions()


def links_of(job_id: str) -> dict[str, str]:
    base = f"/api/v1/jobs/{job_id}"
    return {
        "self": base,
        "executions": f"{base}/executions",
        "results": f"{base}/results.jsonl",
        "events": f"{base}/events",
        "why": f"{base}/why",
        "cancel": f"{base}/cancel",
        "ws": f"/ws/{job_id}",
    }


def job_summary(head: JobHead) -> JobSummary:
    return JobSummary(
        job_id=encode_job_id(head.id),
        user_id=encode_id(USER, head.user),
        kind=head.kind,
        name=head.name,
        status=head.state,
        tier=head.tier,
        priority=head.job_class,
        stage=head.stage,
        stages=head.stages,
        progress=progress(head),
        attempt=head.attempt,
        created_at=head.created_at,
        started_at=head.started_at,
        finished_at=head.finished_at,
        failure=head.failure,
        tags=list(head.tags),
        metadata=dict(head.metadata),
        not_before=head.not_before,
        expires_at=head.expires_at,
    )


def progress(head: JobHead, sent: SentExecutions = NONE_SENT) -> Progress:
    """`sent`: with what backends report of running executions."""
    over = head.completed + head.failed + head.cancelled
    return Progress(
        total=head.total,
        pending=max(head.total - over - sent.queued - sent.running, 0),
        queued=sent.queued,
        running=sent.running,
        completed=head.completed,
        failed=head.failed,
        cancelled=head.cancelled,
        percent=round(min((100.0 * over + sent.percent) / head.total, 100.0), 1),
    )


def job_view(details: JobDetails) -> JobView:
    job = details.executions.job
    page = execution_page(details.executions)
    shown = job_summary(job.head).model_dump(exclude={"progress"})
    return JobView(
        **shown,
        progress=progress(job.head, details.sent),
        executions=page.executions,
        executions_cursor=page.next_cursor,
        spec=dict(job.spec),
        context=dict(job.context) if details.outputs else {},
        position=details.position.position,
        estimated_wait_s=details.position.estimated_wait_s,
        no_estimate_reason=details.position.no_estimate_reason,
        price_paid=job.price_paid,
        skip_price=details.skip_price,
        promoted_at=job.promoted_at,
        next_attempt_at=job.next_attempt_at if job.state in LIVE else None,
        webhook_url=job.webhook and job.webhook["url"],
        webhook_events=job.webhook and job.webhook["events"],
        links=links_of(shown["job_id"]),
    )


def skip_view(skipped: SkippedJob) -> SkipView:
    return SkipView(
        **job_view(skipped.details).model_dump(
            exclude={"position", "estimated_wait_s", "no_estimate_reason"}
        ),
        position=skipped.estimate.position,
        estimated_wait_s=skipped.estimate.wait_s,
        no_estimate_reason=skipped.estimate.reason,
        cost=skipped.payment.price,
        credit=skipped.payment.credit,
        places_gained=skipped.places_gained,
    )


def execution_page(found: ExecutionSlice) -> ExecutionPage:
    by_place = {(one.stage, one.ordinal): one for one in found.recorded}
    views = [execution_view(found.job, key, by_place.get((key.stage, key.ordinal))) for key in found.keys]
    return ExecutionPage(executions=views, next_cursor=views[-1].id if found.more else None)


def execution_view(
    job: JobRecord,
    key: ExecutionKey,
    recorded: ExecutionRecord | None,
    earlier: Sequence[AttemptRecord] | None = None,
) -> ExecutionView:
    """`earlier`: the attempts before the newest one; None leaves the list of attempts out."""
    newest = recorded.newest if recorded is not None else _not_started(job.state)
    attempts = [] if recorded is None else [newest]
    tokens = recorded.tokens if recorded is not None and recorded.tokens else (None, None)
    return ExecutionView(
        id=encode_execution_id(job.head.id, key.stage, key.ordinal),
        job_id=encode_job_id(job.head.id),
        stage=key.stage,
        step=key.item if "steps" in job.spec else None,
        item=key.item,
        model=key.model,
        region=key.region,
        actual_region=newest.actual_region,
        backend=newest.backend,
        state=newest.state,
        attempt=newest.attempt,
        output=recorded.output if recorded is not None else None,
        response=recorded.response if recorded is not None else None,
        tokens_in=tokens[0],
        tokens_out=tokens[1],
        progress=recorded.progress if recorded is not None else None,
        failure=newest.failure,
        started_at=newest.started_at,
        finished_at=newest.finished_at,
        timing=newest.timing,
        attempts=None if earlier is None else [attempt_view(one) for one in (*earlier, *attempts)],
    )


def attempt_view(record: AttemptRecord) -> AttemptView:
    return AttemptView(
        number=record.attempt,
        region=record.actual_region,
        backend=record.backend,
        state=record.state,
        failure=record.failure,
        started_at=record.started_at,
        finished_at=record.finished_at,
        timing=record.timing,
    )


def event_view(job: JobId, event: EventRecord) -> JobEvent:
    return JobEvent(
        seq=event.seq, type=event.type, job_id=encode_job_id(job), at=event.at, data=dict(event.data)
    )


def _not_started(job: JobState) -> AttemptRecord:
    """Pending while the job is live; cancelled when the job has ended without it."""
    state = ExecutionState.PENDING if job in LIVE else ExecutionState.CANCELLED
    return AttemptRecord(0, state, None, None, None, None, None, None)
