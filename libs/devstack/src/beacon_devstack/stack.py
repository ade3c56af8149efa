"""The whole system on one machine: two servers and Beacon's processes, started and stopped in order."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Protocol, Self, TypeVar

from beacon_config import BeaconConfig, ConfigError, load_config
from beacon_devstack.credentials import Credentials
from beacon_devstack.errors import DevstackError
from beacon_devstack.home import HeldHome, Home
from beacon_devstack.orphans import end_recorded
from beacon_devstack.part import Part, PartSpec, run_to_end
from beacon_devstack.plan import Plan, Ports, make_plan, simulated_backends
from beacon_devstack.ports import choose_port
from beacon_devstack.secret_store import Secrets
from beacon_devstack.servers import Servers, running_servers
from beacon_devstack.settings import ROUTER_PORT, RUNNER_PORT, StackSettings
from beacon_lifecycle import Clock, SystemClock

Result = TypeVar("Result")


class Watched(Protocol):
    """A process of the stack: `wait` raises when it ends by itself."""

    async def wait(self) -> None: ...


class Stack:
    """`async with Stack(home, settings) as stack`: ready inside the block, nothing left after it.

    `parts` are Beacon's own processes by name, `servers` the embedded ones; each can be killed and restarted.
    """

    def __init__(
        self,
        home: Home,
        settings: StackSettings,
        *,
        tell: Callable[[str], None] = lambda _: None,
        clock: Clock | None = None,
    ) -> None:
        self.home = home
        self.settings = settings
        self.secrets = Secrets.of(home)
        self.parts: dict[str, Part] = {}
        self._tell = tell
        self._clock = clock or SystemClock()
        self._running = AsyncExitStack()
        self._servers: Servers | None = None

    @property
    def servers(self) -> Servers:
        if self._servers is None:
            raise DevstackError("beacon", "it was not started")
        return self._servers

    @property
    def credentials(self) -> Credentials:
        runner_url = self.parts["runner"].url
        return Credentials(
            runner_url=runner_url,
            router_url=self.parts["router"].url,
            portal_url=f"{runner_url}/",
            user_key=self.secrets.user_key,
            admin_key=self.secrets.admin_key,
            service_token=self.secrets.service_token,
        )

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._running.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._running.aclose()

    async def wait(self) -> None:
        """Never returns: raises what ended when one of the processes did."""
        await _all_of(process.wait() for process in self._processes())

    async def while_alive(self, work: Awaitable[Result]) -> Result:
        """The result of `work`; if a process ends before it is there, its error."""
        try:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(self.wait(), name="stack:watch")
                result = await work
                watch.cancel()
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        return result

    async def _start(self) -> None:
        config = _load(self.settings)
        held = self._running.enter_context(self.home.held({"pid": os.getpid()}))
        self.home.credentials.unlink(missing_ok=True)
        if ended := await end_recorded(self.home.run, marker="beacon_"):
            self._tell(f"ended {ended} processes that a killed run had left")
        plan = await self._prepared(config)
        await self._serve(plan)
        self._publish(held)

    async def _prepared(self, config: BeaconConfig) -> Plan:
        """Ports first, since their errors are the quick ones; then the servers."""
        settings = self.settings
        ports = Ports(
            runner=choose_port(settings.runner_port, part="runner", setting=RUNNER_PORT, host=settings.host),
            router=choose_port(settings.router_port, part="router", setting=ROUTER_PORT, host=settings.host),
            gpusim={
                region: choose_port(0, part="gpusim", setting="")
                for region in simulated_backends(config, settings.inherited)
            },
        )
        self._tell("starting Postgres and Redis")
        self._servers = await self._running.enter_async_context(
            running_servers(self.home, self.secrets, settings.servers)
        )
        return make_plan(
            config,
            settings,
            self.secrets,
            ports,
            database_url=self._servers.database_url,
            redis_url=self._servers.redis_url,
        )

    async def _serve(self, plan: Plan) -> None:
        """Stopped in the opposite order: the runner hands back its work while the router still answers."""
        gpus = [self._add(spec) for spec in plan.gpusims]
        router = self._add(plan.router)
        runner = self._add(plan.runner)
        self._tell("migrating, and starting the router and simulated GPUs")
        await _all_of([self._migrate(plan), *(part.start() for part in (*gpus, router))])
        self._tell("starting the runner")
        await runner.start()

    async def _migrate(self, plan: Plan) -> None:
        for spec in (plan.migrate, plan.bootstrap):
            await run_to_end(spec, self.home)

    def _add(self, spec: PartSpec) -> Part:
        part = Part(spec, self.home, clock=self._clock)
        self.parts[part.name] = part
        self._running.push_async_callback(part.stop)
        return part

    def _publish(self, held: HeldHome) -> None:
        credentials = self.credentials
        credentials.write(self.home)
        self._running.callback(self.home.credentials.unlink, missing_ok=True)
        held.tell({"pid": os.getpid(), "portal_url": credentials.portal_url})

    def _processes(self) -> Iterable[Watched]:
        return [*self.servers.embedded, *self.parts.values()]


async def _all_of(work: Iterable[Awaitable[None]]) -> None:
    """All at once; the first error ends the others and is raised itself."""
    try:
        async with asyncio.TaskGroup() as group:
            for number, one in enumerate(work):
                group.create_task(_awaited(one), name=f"stack:{number}")
    except BaseExceptionGroup as errors:
        raise _first(errors) from None


async def _awaited(work: Awaitable[None]) -> None:
    await work


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _load(settings: StackSettings) -> BeaconConfig:
    try:
        return load_config(settings.config, settings.inherited)
    except ConfigError as error:
        raise DevstackError("configuration", str(error)) from error
