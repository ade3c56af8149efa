"""The HTTP interface of the simulator: dialect endpoints, public routes and control routes."""

from collections.abc import Callable

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from beacon_gpusim.core.gpu import Gpu
from beacon_gpusim.dialects import SimulatedDialect, SimulatedExecute, SimulatedModal, SimulatedOpenAi
from beacon_gpusim.engine import SimulationEngine
from beacon_gpusim.http.call_endpoint import CallEndpoint, CallRules
from beacon_gpusim.http.control_routes import ControlAccess, control_routes
from beacon_gpusim.http.media_routes import media_route
from beacon_gpusim.http.proxy_timeout import ProxyTimeout
from beacon_gpusim.http.public_routes import public_routes
from beacon_gpusim.metrics import GpuCollector
from beacon_gpusim.providers.comfyui import comfyui_routes
from beacon_gpusim.providers.routes import provider_routes
from beacon_gpusim.providers.runs import ProviderRuns
from beacon_lifecycle import TaskSet
from beacon_telemetry import metrics_route, new_registry


class SimulatorApp:
    """An ASGI app; `close` ends the tasks of open calls."""

    def __init__(
        self,
        engine: SimulationEngine,
        proxy_timeout: ProxyTimeout,
        rules: CallRules,
        *,
        control: ControlAccess,
        fresh_gpu: Callable[[], Gpu],
    ) -> None:
        self._tasks = TaskSet("gpusim.calls")
        self._app = FastAPI(title="Beacon gpusim", docs_url=None, redoc_url=None)
        region = engine.gpu.region
        dialects: dict[str, SimulatedDialect] = {
            "/modal": SimulatedModal(region),
            "/v1/chat/completions": SimulatedOpenAi(region),
            "/v1/execute": SimulatedExecute(region),
        }
        for path, dialect in dialects.items():
            endpoint = CallEndpoint(dialect, engine, proxy_timeout, rules, self._tasks)
            self._app.router.routes.append(Route(path, endpoint))
        self._runs = ProviderRuns(engine)
        self._app.router.routes.extend(provider_routes(self._runs, region, rules.body_bytes))
        self._app.router.routes.extend(comfyui_routes(self._runs, region, rules.body_bytes))
        registry = new_registry()
        registry.register(GpuCollector(lambda: engine.gpu))
        self._app.router.routes.append(metrics_route(registry))
        self._app.include_router(public_routes(engine))
        self._app.router.routes.append(media_route())
        self._app.include_router(
            control_routes(engine, proxy_timeout, self._runs, access=control, fresh_gpu=fresh_gpu)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def close(self) -> None:
        await self._tasks.close()
        await self._runs.close()
