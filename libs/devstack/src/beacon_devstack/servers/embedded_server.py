"""Base class of the embedded servers: account, port, start, readiness probe and stop."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from beacon_devstack.errors import DevstackError, PortTakenError
from beacon_devstack.home import Home
from beacon_devstack.ports import choose_port, port_taken_reason
from beacon_devstack.processes.child import Child, ChildSpec
from beacon_devstack.processes.stale_processes import end_servers_in
from beacon_devstack.processes.waiting import until_answers
from beacon_devstack.servers.account import Account, server_account
from beacon_lifecycle import Clock, SystemClock

MAX_PORT_TRIES = 5
READY_TIMEOUT_S = 120.0  # recovery after a kill -9 can take long


class EmbeddedServer(ABC):
    """Start, wait, stop, and start again on the same data and port; also an async context manager."""

    name: str
    program: str  # the process name
    port_setting: str
    port_taken_message: str  # in the log of the server if its port is taken

    def __init__(
        self,
        home: Home,
        *,
        password: str,
        settings: Mapping[str, str],
        port: int = 0,
        clock: Clock | None = None,
    ) -> None:
        self.home = home
        self.data = home.path / self.name
        self.port = 0
        self._password = password
        self._settings = settings
        self._wanted_port = port
        self._clock = clock or SystemClock()
        self._child: Child | None = None

    def __repr__(self) -> str:
        return f"{self.name} on port {self.port} with its data in {self.data}"

    @property
    def child(self) -> Child:
        if self._child is None:
            raise DevstackError(self.name, "it was not started")
        return self._child

    @abstractmethod
    async def prepare(self, account: Account | None) -> None:
        """Prepare the data directory, before the server starts."""

    @abstractmethod
    def spec(self, account: Account | None) -> ChildSpec:
        """How to start the server on `self.port`."""

    @abstractmethod
    async def probe(self) -> str | None:
        """None when the server answers, else the reason why it does not."""

    async def start(self) -> None:
        """Return when the server answers and has read its data."""
        account = server_account(self.data, component=self.name)
        await end_servers_in(self.data, self.program)
        await self.prepare(account)
        for tries_left in reversed(range(MAX_PORT_TRIES)):
            wanted = self.port or self._wanted_port
            self.port = choose_port(wanted, component=self.name, setting=self.port_setting)
            if await self._answers_on_port(account):
                return
            if self._wanted_port or not tries_left:
                sentence = port_taken_reason(self.port, setting=self.port_setting)
                raise PortTakenError(self.name, sentence, self.child.spec.log)
            self.port = 0  # another process took it: choose any other port

    async def wait(self) -> None:
        await self.child.wait()
        raise self.child.exit_error("it ended unexpectedly")

    async def stop(self) -> None:
        if self._child is not None:
            await self._child.stop()

    async def kill(self) -> None:
        """kill -9, as a crash would; `start` brings it back on the same port."""
        await self.child.kill()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _answers_on_port(self, account: Account | None) -> bool:
        """True when it is ready, false when the port was taken after all."""
        self._child = Child(self.spec(account))
        await self._child.start()
        try:
            await until_answers(self._child, self.probe, timeout_s=READY_TIMEOUT_S, clock=self._clock)
        except DevstackError:
            if self._child.running or self.port_taken_message not in self._child.since_start():
                raise
            return False
        return True
