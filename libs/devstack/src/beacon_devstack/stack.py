"""The whole system on one machine: two servers and Beacon's processes, started and stopped in order."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Protocol, Self, TypeVar

from beacon_config import BeaconConfig, ConfigError, load_config
from beacon_config.topology import missing_variables
from beacon_contracts.credentials import Credentials
from beacon_devstack.credentials import write_credentials
from beacon_devstack.errors import DevstackError
from beacon_devstack.home import Home, LockedHome
from beacon_devstack.plan import Plan, Ports, make_plan, simulated_backends
from beacon_devstack.ports import choose_port
from beacon_devstack.processes.child import Child
from beacon_devstack.processes.process import MakeChild, ProcessSpec, ServiceProcess, run_to_end
from beacon_devstack.processes.stale_processes import end_recorded_processes
from beacon_devstack.secret_store import Secrets
from beacon_devstack.servers.running import Servers, running_servers
from beacon_devstack.settings import ROUTER_PORT, RUNNER_PORT, StackSettings
from beacon_lifecycle import Clock, SystemClock

Result = TypeVar("Result")


class Waitable(Protocol):
    """A process of the stack: `wait` raises when it ends unexpectedly."""

    async def wait(self) -> None: ...


class Stack:
    """`async with Stack(home, settings) as stack`: ready inside the block, nothing left after it.

    `processes` are Beacon's by name, `servers` the embedded ones; each can be killed and restarted.
    """

    def __init__(
        self,
        home: Home,
        settings: StackSettings,
        *,
        report: Callable[[str], None] = lambda _: None,
        clock: Clock | None = None,
        make_child: MakeChild = Child,  # of Beacon's processes
    ) -> None:
        self.home = home
        self.settings = settings
        self.secrets = Secrets.of(home)
        self.processes: dict[str, ServiceProcess] = {}
        self._report = report
        self._clock = clock or SystemClock()
        self._make_child = make_child
        self._running = AsyncExitStack()
        self._servers: Servers | None = None

    @property
    def servers(self) -> Servers:
        if self._servers is None:
            raise DevstackError("beacon", "it was not started")
        return self._servers

    @property
    def credentials(self) -> Credentials:
        runner_url = self.processes["runner"].url
        return Credentials(
            runner_url=runner_url,
            router_url=self.processes["router"].url,
            portal_url=f"{runner_url}/",
            user_key=self.secrets.user_key,
            admin_key=self.secrets.admin_key,
            service_token=self.secrets.service_token,
            config_path=str(self.settings.config),
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
        """Never returns; raises the error of the first process that ends."""
        await _all_of(process.wait() for process in self._all_processes())

    async def while_alive(self, work: Awaitable[Result]) -> Result:
        """The result of `work`, or the error of a process that ends before it."""
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
        self._report_backends(config)
        locked = self._running.enter_context(self.home.locked({"pid": os.getpid()}))
        self.home.credentials.unlink(missing_ok=True)
        if ended := await end_recorded_processes(self.home.run, marker="beacon_"):
            self._report(f"ended {ended} processes of an earlier run that was killed")
        plan = await self._prepared(config)
        await self._serve(plan)
        self._publish(locked)

    def _report_backends(self, config: BeaconConfig) -> None:
        regions = simulated_backends(config, self.settings.inherited)
        simulated = [name for backends in regions.values() for name in backends]
        used = {name: backend for name, backend in config.backends.items() if name not in simulated}
        if missing := missing_variables(used, self.settings.inherited):
            raise DevstackError("configuration", "\n".join(missing))
        for name, backend in used.items():
            self._report(f"backend {name}: {backend.dialect} at {backend.url.host}:{backend.url.port}")
        if simulated:
            self._report(f"simulated backends: {', '.join(simulated)}")

    async def _prepared(self, config: BeaconConfig) -> Plan:
        """Choose the ports first, because that fails fast; then start the servers."""
        settings = self.settings
        ports = Ports(
            runner=choose_port(
                settings.runner_port, component="runner", setting=RUNNER_PORT, host=settings.host
            ),
            router=choose_port(
                settings.router_port, component="router", setting=ROUTER_PORT, host=settings.host
            ),
            gpusim={
                region: choose_port(0, component="gpusim", setting="")
                for region in simulated_backends(config, settings.inherited)
            },
        )
        self._report("starting Postgres and Valkey")
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
            router_state=str(self.home.path / "router-config.json"),
            files_url=settings.inherited.get("BEACON_FILES_URL") or str(self.home.path / "files"),
        )

    async def _serve(self, plan: Plan) -> None:
        """Stopped in reverse order: the runner releases its jobs while the router still answers."""
        gpus = [self._add(spec) for spec in plan.gpusims]
        router = self._add(plan.router)
        runner = self._add(plan.runner)
        self._report("migrating, and starting the router" + (" and simulated GPUs" if gpus else ""))
        await _all_of([self._migrate(plan), *(process.start() for process in (*gpus, router))])
        self._report("starting the runner")
        await runner.start()

    async def _migrate(self, plan: Plan) -> None:
        for spec in (plan.migrate, plan.bootstrap):
            await run_to_end(spec, self.home, self._make_child)

    def _add(self, spec: ProcessSpec) -> ServiceProcess:
        process = ServiceProcess(spec, self.home, clock=self._clock, make_child=self._make_child)
        self.processes[process.name] = process
        self._running.push_async_callback(process.stop)
        return process

    def _publish(self, locked: LockedHome) -> None:
        credentials = self.credentials
        write_credentials(self.home, credentials)
        self._running.callback(self.home.credentials.unlink, missing_ok=True)
        locked.publish({"pid": os.getpid(), "portal_url": credentials.portal_url})

    def _all_processes(self) -> Iterable[Waitable]:
        return [*self.servers.embedded, *self.processes.values()]


async def _all_of(work: Iterable[Awaitable[None]]) -> None:
    """Run all concurrently; the first error cancels the others and is raised."""
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
