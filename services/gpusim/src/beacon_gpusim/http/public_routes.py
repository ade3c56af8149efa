"""Health, state and model list: routes without access control."""

from typing import Any

from fastapi import APIRouter, Response

from beacon_gpusim.core.gpu import Gpu
from beacon_gpusim.dialects.openai import model_list
from beacon_gpusim.engine import SimulationEngine


def public_routes(engine: SimulationEngine) -> APIRouter:
    router = APIRouter()

    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @router.get("/readyz")
    async def readyz() -> dict[str, str]:
        return {"status": "ready"}

    @router.get("/state")
    async def state() -> dict[str, Any]:
        return state_of(engine.gpu)

    @router.get("/v1/models")
    async def models() -> Response:
        body = model_list(sorted(engine.gpu.durations.models), int(engine.unix()))
        return Response(body, media_type="application/json")

    return router


def state_of(gpu: Gpu) -> dict[str, Any]:
    return {
        "region": gpu.region,
        "slots": gpu.slots,
        "running": len(gpu.held),
        "running_requests": [call.request_id for call in gpu.held],
        "loaded_models": gpu.memory.ready,
        "loading_models": sorted(gpu.memory.loading),
        "excess": gpu.stats.excess,
    }
