"""Carries the state of a scheduler over to a changed topology: queues, runs, shares, health, durations."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from beacon_router.scheduling.decisions import Request, RequestId
from beacon_router.scheduling.state.backend_state import RunningRequest
from beacon_router.scheduling.state.cluster_state import ClusterState
from beacon_router.scheduling.state.queues import RequestQueues
from beacon_router.scheduling.state.topology import ModelSpec, RegionSpec, Topology


def with_leaving(
    topology: Topology, before: ClusterState, runs: Iterable[RunningRequest], queues: RequestQueues
) -> Topology:
    """The topology, and what unfinished runs need of the one before: backends, models, regions, groups."""
    runs = list(runs)
    continued = {queue.backend for queue in queues.queues() if queue.backend is not None}
    busy = {run.backend.name for run in runs} | continued
    gone = busy - {spec.name for spec in topology.backends}
    leaving = [replace(before.backends[name].spec, drain=True, leaving=True) for name in sorted(gone)]
    models = {model.name: model for model in topology.models}
    for name in [model for spec in leaving for model in sorted(spec.models)] + [
        *(run.request.model for run in runs),
        *(queue.model for queue in queues.queues() if queue.backend is not None),
    ]:
        models.setdefault(name, before.models.get(name, ModelSpec(name)))
    regions = {region.name: region for region in topology.regions}
    for name in [spec.region for spec in leaving] + [run.queue.region for run in runs]:
        regions.setdefault(name, RegionSpec(name))
    groups = {group.name: group for group in topology.groups}
    known = {group.name: group for group in before.topology.groups}
    for spec in leaving:
        if spec.group is not None:
            groups.setdefault(spec.group, known[spec.group])
    return Topology(
        regions=tuple(regions.values()),
        backends=(*topology.backends, *leaving),
        models=tuple(models.values()),
        groups=tuple(groups.values()),
    )


def carry_backends(before: ClusterState, after: ClusterState) -> None:
    """What is known of regions, backends, backend sets and limits. Runs and queues follow."""
    for name in before.regions.keys() & after.regions.keys():
        old, new = before.regions[name], after.regions[name]
        new.recent, new.requests, new.outcomes = old.recent, old.requests, old.outcomes
        kinds = {(each.models, each.capabilities): each for each in old.sets}
        for backend_set in new.sets:
            same = kinds.get((backend_set.models, backend_set.capabilities))
            if same is not None:
                backend_set.batch, backend_set.bypass_run = same.batch, same.bypass_run
                backend_set.served_at = same.served_at
                if before.policy.tiers == after.policy.tiers:
                    backend_set.stride = same.stride
    for name in before.backends.keys() & after.backends.keys():
        after.backends[name].adopt(before.backends[name])
    for limit_name in before.limits.keys() & after.limits.keys():
        after.limits[limit_name].served = before.limits[limit_name].served


def carry_runs(
    runs: Iterable[RunningRequest], before: ClusterState, after: ClusterState, ranks: Sequence[int]
) -> None:
    """Runs keep their slots and tokens, also beyond a smaller number; the users' times go on."""
    for run in runs:
        run.request = _ranked(run.request, ranks)
        run.backend = backend = after.backends[run.backend.name]
        backend.runs[run.request.id] = run
        run.limits = backend.limits + backend.region.model_limits.get(run.request.model, ())
        for limit in run.limits:
            limit.used += 1
        shares = after.shares[run.queue.region][run.request.rank]
        run.user = shares.user_of(run.request)
        if before.policy.fairness is after.policy.fairness:
            shares.resumed(run.user)
        else:
            shares.started(run.user, run.charged_s / run.request.weight)
    for shares in (one for tiers in after.shares.values() for one in tiers):
        shares.forget_idle()
    # Those that have been idle for longest stay first.
    idle = [
        backend.name for region in before.regions.values() for each in region.sets for backend in each.free
    ]
    for backend in after.backends.values():
        backend.backend_set.free.pop(backend, None)
    for name in dict.fromkeys([*idle, *after.backends]):
        if name in after.backends:
            after.backends[name].refresh()


def carry_queues(
    before: ClusterState,
    after: ClusterState,
    waiting: RequestQueues,
    queues: RequestQueues,
    ranks: Sequence[int],
) -> list[RequestId]:
    """Waiting requests keep their order and their users' shares. Returns those that no backend serves."""
    unserved: list[RequestId] = []
    queues.last_seq = waiting.last_seq
    for queued in sorted(waiting.waiting.values(), key=lambda queued: queued.seq):
        queued.request = _ranked(queued.request, ranks)
        if queued.request.backend is None and not after.can_serve(queued.request):
            unserved.append(queued.request.id)
            continue
        region = queued.queue.region if queued.queue.region in after.regions else queued.request.region
        queues.adopt(queued, region, queued.queue.avoided.intersection(after.regions))
    if before.policy.fairness is after.policy.fairness:
        for name in before.shares.keys() & after.shares.keys():
            for rank, shares in enumerate(before.shares[name]):
                after.shares[name][ranks[rank]].adopt(shares)
    return unserved


def _ranked(request: Request, ranks: Sequence[int]) -> Request:
    rank = ranks[request.rank]
    return request if rank == request.rank else replace(request, rank=rank)
