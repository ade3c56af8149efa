"""Metrics of the worker and the maintenance loops."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

FLUSH_SIZES = (1, 5, 20, 50, 100, 200, 500, 1000)


DELIVERY_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15)


class WebhookMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.attempts = Counter(
            "beacon_runner_webhook_attempts", "Attempts to deliver by result", ["result"], registry=registry
        )
        self.duration = Histogram(
            "beacon_runner_webhook_attempt_seconds",
            "Duration of attempts",
            buckets=DELIVERY_SECONDS,
            registry=registry,
        )
        self.late = Gauge(
            "beacon_runner_webhook_late_seconds",
            "How late the latest of the deliveries that were taken last was",
            registry=registry,
        )
        self.in_flight = Gauge(
            "beacon_runner_webhook_in_flight", "Requests that are being sent", registry=registry
        )


class LoopMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"beacon_runner_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"beacon_runner_{name}", text, labels, registry=registry)

        self.published = counter("outbox_published", "Outbox entries published to Redis")
        self.outbox_entries = gauge("outbox_entries", "Outbox entries not yet published to Redis")
        self.outbox_lag = gauge("outbox_lag_seconds", "Age of the oldest outbox entry")
        self.waiting = gauge("queue_waiting", "Messages that wait in lanes and front", "job_class")
        self.queued = gauge("queue_messages", "Messages by place: retry, dead, leased, overdue", "place")
        self.retries = counter("retries_due", "Retries that came due")
        self.reclaimed = counter("leases_expired", "Messages whose lease expired")
        self.jobs_promoted = counter("jobs_promoted", "Jobs raised to a class", "job_class")
        self.jobs_republished = counter("jobs_republished", "Live jobs that Redis did not know")
        self.queue_repaired = counter("queue_repaired", "Messages missing in their list that were restored")
        self.oldest = gauge("queue_oldest_seconds", "How long the oldest waiting job waits", "job_class")
        self.jobs_claimed = counter("jobs_claimed", "Jobs claimed by workers", "job_class")
        self.stale_claims = counter("stale_claims", "Claimed messages of old generations or ended jobs")
        self.verdicts = counter("verdicts", "Verdicts on jobs by kind", "verdict")
        self.fence_conflicts = counter("fence_conflicts", "Reports refused: the job has a newer fence")
        self.leases_lost = counter("leases_lost", "Running jobs whose message another worker has leased")
        self.slots_used = gauge("slots_used", "Slots in use: jobs that are claimed and sent", "pool")
        self.jobs_in_flight = gauge("jobs_in_flight", "Jobs of this process, also those that wait at routers")
        self.in_flight_bytes = gauge("in_flight_bytes", "Inputs of the jobs of this process")
        self.heartbeat_failures = counter("heartbeat_failures", "Failed heartbeats")
        self.demand_waiting = gauge("demand_waiting", "Executions and requests that wait", "model", "region")
        self.demand_gpu_seconds = gauge(
            "demand_gpu_seconds", "GPU seconds that waiting and running work will take", "model", "region"
        )
        self.demand_slots = gauge(
            "demand_slots_needed", "Slots that would do the work in 60 s", "model", "region"
        )
        self.demand_wait = gauge(
            "demand_wait_seconds",
            "Estimated wait of a new request; NaN if nothing can run it",
            "model",
            "region",
            "quantile",
        )
        self.gpu_runs = counter("gpu_runs", "Runs on GPUs", "model", "region", "outcome")
        self.gpu_seconds = counter("gpu_seconds", "Loading and running", "model", "region")
        self.tokens = counter("tokens", "Tokens that backends report", "model", "region", "direction")
        self.result_batch_size = Histogram(
            "beacon_runner_result_batch_size",
            "Jobs whose results share one transaction",
            buckets=FLUSH_SIZES,
            registry=registry,
        )
