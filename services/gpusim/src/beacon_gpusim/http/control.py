"""The control endpoints, with which tests and people steer the simulation and read what it did."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response

from beacon_gpusim.core.gpu import Gpu
from beacon_gpusim.engine import Engine
from beacon_gpusim.http.proxy_cut import ProxyCut
from beacon_gpusim.http.public import public_routes, state_of
from beacon_gpusim.metrics import GpuCollector
from beacon_gpusim.shapes import FaultShape, ProxyShape, SlotsShape, TimesShape
from beacon_telemetry import metrics_route, new_registry

ControlAccess = Literal["loopback", "any", "off"]
_LOOPBACK = ("127.", "::1", "::ffff:127.")


def build_rest(
    engine: Engine, proxy_cut: ProxyCut, *, access: ControlAccess, fresh_gpu: Callable[[], Gpu]
) -> FastAPI:
    """Everything that is not a call."""
    app = FastAPI(title="Beacon gpusim", redoc_url=None)
    registry = new_registry()
    registry.register(GpuCollector(lambda: engine.gpu))
    app.router.routes.append(metrics_route(registry))
    app.include_router(public_routes(engine))
    if access != "off":
        guard = [Depends(_only_loopback)] if access == "loopback" else []
        routers = (_ledger(engine), _knobs(engine, proxy_cut), _faults(engine))
        for router in (*routers, _reset(engine, proxy_cut, fresh_gpu)):
            app.include_router(router, prefix="/control", tags=["control"], dependencies=guard)
    return app


async def _only_loopback(request: Request) -> None:
    host = request.client.host if request.client else ""
    if not host.startswith(_LOOPBACK):
        raise HTTPException(403, "control is open to this machine only (GPUSIM_CONTROL=any changes that)")


def _ledger(engine: Engine) -> APIRouter:
    router = APIRouter()

    @router.get("/ledger")
    async def ledger(
        since: float | None = None, model: str | None = None, request_id: str | None = None
    ) -> Response:
        """Every call that came, oldest first; `since` is an `arrived` of a call that was seen before."""
        calls = engine.gpu.ledger.select(since=since, model=model, request_id=request_id)
        body = orjson.dumps({"calls": [call.record() for call in calls]})
        return Response(body, media_type="application/json")

    @router.delete("/ledger", status_code=204)
    async def clear_ledger() -> None:
        """Forget the calls that are over."""
        engine.gpu.ledger.clear()

    @router.get("/stats")
    async def stats() -> dict[str, Any]:
        return _stats(engine.gpu)

    return router


def _knobs(engine: Engine, proxy_cut: ProxyCut) -> APIRouter:
    router = APIRouter()

    @router.put("/models")
    async def set_models(models: dict[str, TimesShape]) -> dict[str, Any]:
        """Load and run times per model, from the next load or run on."""
        times = engine.gpu.times
        for name, shape in models.items():
            times.set(name, shape.over(times.of(name)))
        return {"models": {name: repr(times.of(name)) for name in models}}

    @router.put("/slots")
    async def set_slots(body: SlotsShape) -> dict[str, Any]:
        """How many calls may be in at once; those that are in stay."""
        engine.gpu.slots = body.slots
        if body.loaded_models is not None:
            engine.gpu.memory.capacity = body.loaded_models
        return state_of(engine.gpu)

    @router.put("/proxy", status_code=204)
    async def set_proxy(body: ProxyShape) -> None:
        """After how many seconds the proxy of the modal dialect cuts the next request."""
        proxy_cut.cut_s = body.cut_s

    return router


def _faults(engine: Engine) -> APIRouter:
    router = APIRouter()

    @router.get("/faults")
    async def faults() -> dict[str, Any]:
        return _rules(engine.gpu)

    @router.post("/faults", status_code=201)
    async def add_fault(body: FaultShape) -> dict[str, Any]:
        """Add a rule; the first rule that applies to a call decides."""
        engine.gpu.faults.add(body.inside())
        return _rules(engine.gpu)

    @router.delete("/faults", status_code=204)
    async def clear_faults() -> None:
        engine.gpu.faults.clear()

    @router.post("/release")
    async def release(most: Annotated[int, Query(ge=1)] | None = None) -> dict[str, int]:
        """End the runs that a `hold` keeps, and hold no more; with `most` only so many, the oldest first."""
        return {"released": engine.release(most)}

    return router


def _reset(engine: Engine, proxy_cut: ProxyCut, fresh_gpu: Callable[[], Gpu]) -> APIRouter:
    router = APIRouter()

    @router.post("/reset")
    async def reset() -> dict[str, Any]:
        """Back to the settings the process started with: nothing loaded, no faults, no calls."""
        engine.replace(fresh_gpu())
        proxy_cut.reset()
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
