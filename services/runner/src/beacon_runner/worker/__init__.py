"""The worker: claims jobs, runs what is left of a stage through a router and records the result.

In the order in which a job passes through it:

1. `service.py`: `Worker` starts and stops the parts and wakes the pools.
2. `pool.py`: `Pool` leases messages from the queue, claims their jobs in Postgres and begins them.
3. `run.py`: `JobRun` is one delivery of a job: what is left to start, what runs, what is unrecorded. No I/O.
4. `job_runner.py`: `JobRunner` has a task for each execution that runs, and asks for the verdict at the end.
5. `executor.py`: `RouterExecutor` sends one execution to a router and translates the answer.
6. `pending_reports.py`: `PendingReports` has the runs with something to record until a writer takes them.
7. `recorder.py`: `Recorder` writes their reports in one transaction, then acknowledges what has ended.

Next to that path, `heartbeat.py` renews the leases from a thread of its own, and `in_flight.py` bounds what
the process may have claimed and not recorded.
"""
