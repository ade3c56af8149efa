"""The router's application service: accepts, joins, awaits and cancels inferences."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from beacon_contracts.inference import InferenceState, RemoteRun
from beacon_lifecycle import Clock, TaskSet
from beacon_router.backends import Backend
from beacon_router.scheduling import Policy, RequestId, Scheduler, Topology
from beacon_router.service.admission import InferenceAdmission
from beacon_router.service.breakers import BreakerRules, Breakers
from beacon_router.service.cancelled_fences import CancelledFences
from beacon_router.service.errors import (
    RequestIdReusedError,
    StaleFenceError,
    StoppingError,
    UnknownInferenceError,
)
from beacon_router.service.failures import cancelled, failure_of, stopped_waiting
from beacon_router.service.inference import Inference, InferenceSpec
from beacon_router.service.inference_store import InferenceStore, StoreLimits
from beacon_router.service.run_controller import RunController
from beacon_router.service.run_events import RunEvents
from beacon_router.service.run_rules import RunRules
from beacon_router.service.run_tasks import log_left_run
from beacon_router.service.timers import Timer, Timers

# Retry-After while the router stops: how long a restart usually takes.
RESTART_S = 5.0


@dataclass(frozen=True, slots=True)
class DispatchRules:
    runs: RunRules
    breakers: BreakerRules
    queue_size: int
    store: StoreLimits
    stop_grace_s: float


class DispatchService:
    """`stop` drains: new work is refused, queued work is failed, running work may end within the grace."""

    name = "dispatch"

    def __init__(
        self,
        topology: Topology,
        scheduler: Scheduler,
        rules: DispatchRules,
        *,
        backends: Mapping[str, Backend],
        clock: Clock,
        events: RunEvents,
        ready: asyncio.Event,
    ) -> None:
        """`ready` is set when backends or shared limits have changed, so that queued work may start."""
        self._rules = rules
        self._backends = backends
        self._ready = ready
        self._tasks = TaskSet("dispatch")
        self._stopped = asyncio.Event()
        self.stopping = False
        self.scheduler = scheduler
        self.clock = clock
        self.timers = Timers(clock)
        self.store = InferenceStore(rules.store)
        self.breakers = Breakers(
            (backend.name for backend in topology.backends),
            rules.breakers,
            scheduler=scheduler,
            clock=clock,
            timers=self.timers,
            ready=ready,
        )
        self.runs = RunController(
            scheduler,
            rules.runs,
            backends=backends,
            store=self.store,
            breakers=self.breakers,
            timers=self.timers,
            clock=clock,
            events=events,
        )
        self._admission = self._admits(topology, rules.queue_size)
        self._cancelled = CancelledFences(rules.store.retention_s)

    def adopt(
        self,
        topology: Topology,
        policy: Policy,
        rules: RunRules,
        *,
        ranks: Sequence[int],
        replaced: Collection[str],
        scale_to_zero: frozenset[str],
        queue_size: int,
    ) -> None:
        """Go on with another topology: nothing that runs is stopped, what waits keeps its place, and what no
        backend serves any more fails. `ranks`: the new rank of each old tier; `replaced`: backends that are
        another server now. `runs.dispatch_ready` must follow."""
        unserved = self.scheduler.adopt(topology, policy, ranks)
        names = [backend.name for backend in self.scheduler.topology.backends]
        self.breakers.adopt(names, replaced, scale_to_zero)
        self._admission = self._admits(topology, queue_size)
        self.runs.adopt(rules, ranks, unserved)

    def _admits(self, topology: Topology, queue_size: int) -> InferenceAdmission:
        return InferenceAdmission(
            queue_size,
            topology,
            scheduler=self.scheduler,
            breakers=self.breakers,
            store=self.store,
            waiting=self.runs.waiting,
        )

    def submit(self, spec: InferenceSpec) -> Inference:
        """Queue it, or join the inference with the same id. After a DispatchError nothing has changed."""
        inference = self.accept(spec)
        self.runs.dispatch_ready()
        return inference

    def accept(self, spec: InferenceSpec) -> Inference:
        """As `submit`, for one of several: `runs.dispatch_ready` must follow the last one."""
        known = self.store.get(spec.id)
        if known is not None and not _runs_again(known, spec):
            return self._join(known, spec)
        if spec.fence < self._cancelled.lowest_valid(spec.id):
            raise StaleFenceError(f"{spec.id} was cancelled with a higher fence than {spec.fence}")
        if self.stopping:
            raise StoppingError("the router is stopping", RESTART_S)
        now = self.clock.now()
        remote = spec.remote
        if remote is not None and not self._continues(remote, spec.model, known):
            remote = None
        payload_bytes = len(spec.input) + len(spec.params) + len(spec.context)
        self._admission.check(now, spec if remote is None else spec._replace(start_by=None), payload_bytes)
        inference = Inference(
            id=spec.id,
            spec=spec,
            payload_bytes=payload_bytes,
            fence=spec.fence,
            accepted_at=now,
            front=spec.front,
            waiting_since=now,
            remote=remote,
        )
        if spec.remote is not None and remote is None and known is None:
            log_left_run(spec.remote)
        self.runs.enqueue(inference, now)
        return inference

    def submit_alone(self, spec: InferenceSpec) -> Inference:
        """Queue it for one client, which reads its stream; an id that is in use is refused."""
        if spec.id in self.store:
            raise RequestIdReusedError(f"{spec.id} is already used")
        return self.submit(spec)

    def get(self, request: RequestId) -> Inference:
        inference = self.store.get(request)
        if inference is None:
            raise UnknownInferenceError(f"inference {request} is unknown, or its result has expired")
        return inference

    def waiter(self, inference: Inference, seconds: float | None) -> asyncio.Future[None]:
        """Done when it has ended or the seconds have passed. Cancel it to stop waiting."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        inference.waiters.append(waiter)
        timer = None if seconds is None else self.timers.after(seconds, partial(_resolve, waiter))
        waiter.add_done_callback(partial(_remove_waiter, inference, timer))
        if inference.done:
            _resolve(waiter)
        return waiter

    def cancel(self, request: RequestId, fence: int | None = None) -> Inference:
        """End it at once, queued or running; one that has ended stays as it is.

        With a fence, requests with a lower fence are refused even if they arrive later.
        """
        if fence is not None:
            self._cancelled.add(request, fence, self.clock.now())
        inference = self.get(request)
        if fence is not None and fence < inference.fence:
            raise StaleFenceError(f"fence {fence} of {request} is lower than the current {inference.fence}")
        if not inference.done:
            self.runs.terminate(inference, InferenceState.CANCELLED, failure_of(cancelled()))
            self.runs.dispatch_ready()
        return inference

    def leave(self, inference: Inference) -> None:
        """The only client of `submit_alone` is gone: it ends, and keeps no memory from results that are asked
        for later."""
        if not inference.done:
            self.cancel(inference.id)
        self.store.forget(inference)

    async def cancel_remote(self, remote: RemoteRun) -> None:
        """Cancel a run at its provider, of which this router need not know. Raises BackendError."""
        backend = self._backends.get(remote.backend)
        if backend is None or backend.remote is None:
            log_left_run(remote)
            raise UnknownInferenceError(
                f"there is no backend {remote.backend} with runs that can be cancelled"
            )
        await backend.remote.cancel(remote.run_id)

    async def drain(self, grace_s: float) -> None:
        """Refuse new work, fail what is queued, let runs end within the grace. Idempotent."""
        self.stopping = self.runs.draining = True
        for inference in self.store.waiting():
            self.runs.terminate(inference, InferenceState.FAILED, failure_of(stopped_waiting()))
        self.runs.dispatch_ready()
        await self.runs.drain(grace_s)

    # The service contract

    async def start(self) -> None:
        self._tasks.spawn("timers", self.timers.run())
        self._tasks.spawn("ready", self._dispatch_when_ready())

    async def wait(self) -> None:
        """Until stopped; raises if a part of the dispatch itself has failed."""
        events = (self._stopped, self._tasks.failed, self.runs.failed)
        waiting = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for future in waiting:
                future.cancel()
        failure = self._tasks.failure or self.runs.failure
        if failure is not None:
            raise failure

    async def stop(self) -> None:
        await self.drain(self._rules.stop_grace_s)
        await self._tasks.close()
        self._stopped.set()

    async def _dispatch_when_ready(self) -> None:
        while True:
            await self._ready.wait()
            self._ready.clear()
            self.runs.dispatch_ready()

    def _continues(self, remote: RemoteRun, model: str, known: Inference | None) -> bool:
        """The run that a request names can be continued; one that has ended here cannot."""
        if known is not None and known.remote != remote:
            return False
        backend = self._backends.get(remote.backend)
        served = self.scheduler.serves(remote.backend, model)
        return served and backend is not None and backend.remote is not None

    def _join(self, known: Inference, spec: InferenceSpec) -> Inference:
        if spec.fence < known.fence and known.state is not InferenceState.COMPLETED:
            raise StaleFenceError(f"fence {spec.fence} of {spec.id} is lower than the current {known.fence}")
        if (spec.model, spec.region) != (known.spec.model, known.spec.region):
            raise RequestIdReusedError(
                f"{spec.id} is already used for {known.spec.model} in {known.spec.region}"
            )
        known.fence = max(known.fence, spec.fence)
        if spec.front and not known.front and not known.done:
            self.runs.move_to_front(known)
        return known


def _runs_again(known: Inference, spec: InferenceSpec) -> bool:
    """It failed or was cancelled and the fence is higher now; or it failed without any run."""
    if not known.done or known.state is InferenceState.COMPLETED:
        return False
    never_ran = known.state is InferenceState.FAILED and not known.attempts
    return spec.fence > known.fence or (never_ran and spec.fence == known.fence)


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _remove_waiter(inference: Inference, timer: Timer | None, waiter: asyncio.Future[None]) -> None:
    if timer is not None:
        timer.cancel()
    if waiter in inference.waiters:
        inference.waiters.remove(waiter)
