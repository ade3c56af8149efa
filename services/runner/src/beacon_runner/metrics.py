"""The figures of the loops, in the registry that the process owns."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

FLUSH_SIZES = (1, 5, 20, 50, 100, 200, 500, 1000)


class LoopMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"beacon_runner_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"beacon_runner_{name}", text, labels, registry=registry)

        self.published = counter("outbox_published", "Outbox entries carried to Redis")
        self.outbox_entries = gauge("outbox_entries", "Outbox entries not yet carried to Redis")
        self.outbox_lag = gauge("outbox_lag_seconds", "Age of the oldest outbox entry")
        self.waiting = gauge("queue_waiting", "Messages that wait in lanes and front", "job_class")
        self.queued = gauge("queue_messages", "Messages by where they are", "place")
        self.retries = counter("retries_due", "Retries that came due")
        self.reclaimed = counter("leases_ended", "Messages taken back from workers that went silent")
        self.promoted = counter("promoted", "Jobs raised to a class", "job_class")
        self.republished = counter("republished", "Live jobs that Redis did not know")
        self.astray = counter("astray", "Messages that were not where Redis said, and were put back")
        self.oldest = gauge("queue_oldest_seconds", "How long the oldest waiting job waits", "job_class")
        self.claimed = counter("claimed", "Jobs taken by workers", "job_class")
        self.stale = counter("claims_stale", "Messages that no longer spoke for their job")
        self.verdicts = counter("verdicts", "What became of jobs", "verdict")
        self.fences_lost = counter("fences_lost", "Jobs that another worker or a user took over")
        self.running = gauge("jobs_running", "Jobs in the hands of this process", "pool")
        self.heartbeat_failures = counter("heartbeat_failures", "Heartbeats that did not reach Redis")
        self.recorded = Histogram(
            "beacon_runner_recorded_together",
            "Jobs whose reports shared one transaction",
            buckets=FLUSH_SIZES,
            registry=registry,
        )
