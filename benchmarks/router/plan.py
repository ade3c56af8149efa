"""The measurements, their order and their results."""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from benchmarks.harness.rounds import shuffled_rounds
from benchmarks.router import peers
from benchmarks.router.measuring import Load, Measured, measure
from benchmarks.router.processes import Environment, Server
from benchmarks.router.retry_delay import retry_delays

ROUTER, ECHO, DIRECT = "Beacon router", "FastAPI echo (limit)", "backend alone (limit)"
PROXY, CLASS = "LiteLLM proxy", "LiteLLM Router class"
IN_FLIGHT = 64
SLOW_RUN_S = 0.05

Trial = Callable[[], Awaitable[Measured]]
Round = dict[str, Measured]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Requests of one measurement; the peers get fewer, because they are slower."""

    rounds: int
    requests: int
    peer_requests: int
    seed: int


@dataclass(slots=True)
class Findings:
    throughput: list[Round] = field(default_factory=list)
    latency: list[Round] = field(default_factory=list)
    retries_ms: list[float] = field(default_factory=list)
    peers: bool = False
    load_before: float = 0.0
    """Load average before the measurement; above the number of cores, latencies are unreliable."""


class Plan:
    def __init__(self, place: Environment, sizes: Sizes, *, with_peers: bool) -> None:
        self._place = place
        self._sizes = sizes
        self._with_peers = with_peers

    async def run(self) -> Findings:
        findings = Findings(peers=self._with_peers, load_before=os.getloadavg()[0])
        findings.throughput = await self._rounds(await self._throughput_trials())
        findings.latency = await self._rounds(await self._latency_trials())
        findings.retries_ms = await self._retries()
        return findings

    async def _rounds(self, runs: dict[str, Trial]) -> list[Round]:
        rounds: list[Round] = []
        for number, order in enumerate(shuffled_rounds(list(runs), self._sizes.rounds, self._sizes.seed)):
            measured: Round = {}
            for name in order:
                measured[name] = await runs[name]()
                print(f"round {number + 1}: {name}: {_line(measured[name])}", flush=True)
            rounds.append(measured)
        return rounds

    async def _throughput_trials(self) -> dict[str, Trial]:
        gpu = await self._place.backend("fast backend", 0.0)
        router = await self._place.router("router on fast gpu", gpu)
        echo = await self._place.echo()
        load = Load("/inference", "inference", self._sizes.requests, IN_FLIGHT)
        runs = {
            ROUTER: self._trial(router, load),
            ECHO: self._trial(echo, load),
            DIRECT: self._trial(gpu, Load("/modal", "modal", self._sizes.requests, IN_FLIGHT)),
        }
        return runs | await self._peer_trials(gpu, "proxy on fast gpu")

    async def _latency_trials(self) -> dict[str, Trial]:
        gpu = await self._place.backend("slow backend", SLOW_RUN_S)
        router = await self._place.router("router on slow gpu", gpu)
        runs = {
            ROUTER: self._trial(router, Load("/inference", "inference", self._sizes.requests, IN_FLIGHT)),
            DIRECT: self._trial(gpu, Load("/modal", "modal", self._sizes.requests, IN_FLIGHT)),
        }
        return runs | await self._peer_trials(gpu, "proxy on slow gpu")

    async def _peer_trials(self, gpu: Server, name: str) -> dict[str, Trial]:
        if not self._with_peers:
            return {}
        proxy = await self._place.litellm_proxy(name, peers.PYTHON, gpu)
        requests = self._sizes.peer_requests
        return {
            PROXY: self._trial(proxy, Load("/v1/chat/completions", "chat", requests, IN_FLIGHT)),
            CLASS: lambda: peers.measure_router_class(gpu, requests, IN_FLIGHT),
        }

    async def _retries(self) -> list[float]:
        us, eu = await self._place.gpu("us gpu", 0.0), await self._place.gpu("eu gpu", 0.0)
        router = await self._place.router("router of two", us, eu)
        return await retry_delays(us, eu, router)

    @staticmethod
    def _trial(server: Server, load: Load) -> Trial:
        return lambda: measure(server, load)


def _line(measured: Measured) -> str:
    return (
        f"{measured.rate:.0f} requests/s, {measured.per_core:.0f} per CPU second, "
        f"p50 {measured.p50_ms:.1f} ms, p99 {measured.p99_ms:.1f} ms"
    )
