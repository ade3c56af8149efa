"""The control endpoints: they change the simulation and read its ledger."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from beacon_gpusim.core.gpu import Gpu
from beacon_gpusim.engine import SimulationEngine
from beacon_gpusim.http.proxy_timeout import ProxyTimeout
from beacon_gpusim.http.public_routes import state_of
from beacon_gpusim.providers.runs import ProviderRuns
from beacon_gpusim.specs import FaultSpec, ProxySpec, SimulatedModelSpec, SlotsSpec

ControlAccess = Literal["loopback", "any", "off"]
_LOOPBACK = ("127.", "::1", "::ffff:127.")


def control_routes(
    engine: SimulationEngine,
    proxy_timeout: ProxyTimeout,
    runs: ProviderRuns,
    *,
    access: ControlAccess,
    fresh_gpu: Callable[[], Gpu],
) -> APIRouter:
    guard = [Depends(_only_loopback)] if access == "loopback" else []
    router = APIRouter(prefix="/control", tags=["control"], dependencies=guard)
    if access != "off":
        router.include_router(_ledger(engine))
        router.include_router(_limits_and_durations(engine, proxy_timeout))
        router.include_router(_faults(engine))
        router.include_router(_reset(engine, proxy_timeout, runs, fresh_gpu))
    return router


async def _only_loopback(request: Request) -> None:
    host = request.client.host if request.client else ""
    if not host.startswith(_LOOPBACK):
        raise HTTPException(
            403, "control accepts requests from this machine only; set GPUSIM_CONTROL=any to change this"
        )


def _ledger(engine: SimulationEngine) -> APIRouter:
    router = APIRouter()

    @router.get("/ledger")
    async def ledger(
        since: float | None = None, model: str | None = None, request_id: str | None = None
    ) -> Response:
        """Every call, oldest first; `since` compares with `arrived` of the calls."""
        calls = engine.gpu.ledger.select(since=since, model=model, request_id=request_id)
        body = orjson.dumps({"calls": [call.record() for call in calls]})
        return Response(body, media_type="application/json")

    @router.delete("/ledger", status_code=204)
    async def clear_ledger() -> None:
        """Delete the calls that have ended."""
        engine.gpu.ledger.clear()

    @router.get("/stats")
    async def stats() -> dict[str, Any]:
        return _stats(engine.gpu)

    return router


def _limits_and_durations(engine: SimulationEngine, proxy_timeout: ProxyTimeout) -> APIRouter:
    router = APIRouter()

    @router.put("/models")
    async def set_models(models: dict[str, SimulatedModelSpec]) -> dict[str, Any]:
        """Load and run times and media per model, from the next load or run on."""
        durations = engine.gpu.durations
        for name, spec in models.items():
            durations.set(name, spec.over(durations.of(name)))
            if spec.media is not None:
                engine.gpu.media[name] = spec.media.to_domain()
        return {"models": {name: repr(durations.of(name)) for name in models}}

    @router.put("/slots")
    async def set_slots(body: SlotsSpec) -> dict[str, Any]:
        """The number of concurrent calls; running calls are not ended."""
        engine.gpu.slots = body.slots
        if body.loaded_models is not None:
            engine.gpu.memory.capacity = body.loaded_models
        return state_of(engine.gpu)

    @router.put("/proxy", status_code=204)
    async def set_proxy(body: ProxySpec) -> None:
        """The seconds after which the proxy of the modal dialect answers 303."""
        proxy_timeout.timeout_s = body.cut_s

    return router


def _faults(engine: SimulationEngine) -> APIRouter:
    router = APIRouter()

    @router.get("/faults")
    async def faults() -> dict[str, Any]:
        return _rules(engine.gpu)

    @router.post("/faults", status_code=201)
    async def add_fault(body: FaultSpec) -> dict[str, Any]:
        """Add a rule; the first rule that applies to a call decides."""
        engine.gpu.faults.add(body.to_domain())
        return _rules(engine.gpu)

    @router.delete("/faults", status_code=204)
    async def clear_faults() -> None:
        engine.gpu.faults.clear()

    @router.post("/release")
    async def release(most: Annotated[int, Query(ge=1)] | None = None) -> dict[str, int]:
        """End held runs and remove `hold` rules; with `most` only that many runs, oldest first."""
        return {"released": engine.release(most)}

    return router


def _reset(
    engine: SimulationEngine, proxy_timeout: ProxyTimeout, runs: ProviderRuns, fresh_gpu: Callable[[], Gpu]
) -> APIRouter:
    router = APIRouter()

    @router.post("/reset")
    async def reset() -> dict[str, Any]:
        """Restore the initial settings: no loaded models, no faults, no calls."""
        runs.forget()
        engine.replace(fresh_gpu())
        proxy_timeout.reset()
        return state_of(engine.gpu)

    return router


def _stats(gpu: Gpu) -> dict[str, Any]:
    return {
        "max_concurrent": gpu.stats.max_concurrent,
        "max_concurrent_by_model": gpu.stats.max_concurrent_by_model,
        "excess": gpu.stats.excess,
        "outcomes": {outcome.value: count for outcome, count in gpu.stats.outcomes.items()},
        "calls": sum(gpu.stats.outcomes.values()) + len(gpu.held),
        "loads": gpu.stats.loads,
        "evictions": gpu.memory.evictions,
    }


def _rules(gpu: Gpu) -> dict[str, Any]:
    rules = [{"kind": fault.kind, "model": fault.model, "left": left} for fault, left in gpu.faults.rules]
    return {"faults": rules}
