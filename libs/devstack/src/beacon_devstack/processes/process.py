"""One of Beacon's processes: started as a module, ready when /readyz answers 200."""

import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx

from beacon_devstack.home import Home
from beacon_devstack.processes.child import Child, ChildSpec
from beacon_devstack.processes.waiting import until_answers
from beacon_lifecycle import Clock

READY_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0
_NO_TLS = ssl.SSLContext(
    ssl.PROTOCOL_TLS_CLIENT
)  # the default context reads all certificates for each client

MakeChild = Callable[[ChildSpec], Child]


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """`python -m <module> <arguments>` with this environment, and the address that it serves."""

    name: str
    module: str
    environment: Mapping[str, str]
    arguments: tuple[str, ...] = ()
    url: str = ""

    def child(self, home: Home) -> ChildSpec:
        return ChildSpec(
            name=self.name,
            argv=[sys.executable, "-m", self.module, *self.arguments],
            log=home.log_of(self.name),
            pid_file=home.pid_file_of(self.name),
            environment={**self.environment, "PYTHONUNBUFFERED": "1"},
            grace_s=STOP_TIMEOUT_S,
        )


class ServiceProcess:
    """A process that serves until it is stopped; `kill` and `start` simulate a crash and a restart."""

    def __init__(self, spec: ProcessSpec, home: Home, *, clock: Clock, make_child: MakeChild = Child) -> None:
        self.name = spec.name
        self.url = spec.url
        self.child = make_child(spec.child(home))
        self._clock = clock

    def __repr__(self) -> str:
        return f"{self.name} at {self.url} ({self.child!r})"

    async def start(self) -> None:
        """Return when it is ready to serve."""
        await self.child.start()
        async with httpx.AsyncClient(
            base_url=self.url, timeout=2.0, trust_env=False, verify=_NO_TLS
        ) as client:
            await until_answers(
                self.child, lambda: _ready(client), timeout_s=READY_TIMEOUT_S, clock=self._clock
            )

    async def wait(self) -> None:
        await self.child.wait()
        raise self.child.exit_error("it ended unexpectedly")

    async def stop(self) -> None:
        await self.child.stop()

    async def kill(self) -> None:
        await self.child.kill()


async def run_to_end(spec: ProcessSpec, home: Home, make_child: MakeChild = Child) -> None:
    """Run a one-off command; raises if it fails."""
    child = make_child(spec.child(home))
    await child.start()
    try:
        if await child.wait() != 0:
            raise child.exit_error("it failed")
    finally:
        await child.stop()


async def _ready(client: httpx.AsyncClient) -> str | None:
    try:
        answer = await client.get("/readyz")
    except httpx.HTTPError as error:
        return f"no answer at {client.base_url} ({type(error).__name__})"
    return (
        None
        if answer.status_code == httpx.codes.OK
        else f"it answers {answer.status_code}: {answer.text[:200]}"
    )
