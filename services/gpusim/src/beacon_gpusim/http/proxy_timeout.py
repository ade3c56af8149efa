"""The proxy of a Modal endpoint: it answers 303 after a timeout, and the client polls for the result.

The run continues whether or not a client polls. Each poll waits for the same timeout.
"""

from collections import OrderedDict

from beacon_gpusim.dialects import SimulatedDialect
from beacon_gpusim.engine import SimulationEngine
from beacon_gpusim.http.exchange import HttpExchange
from beacon_gpusim.http.pending_call import PendingCall, respond_error, respond_to_ended

CALL_ID_PARAMETER = "__modal_function_call_id"
_MAX_REDIRECTED = 10_000


class ProxyTimeout:
    """Keeps the calls that were redirected, up to a limit, for the polls of their clients."""

    def __init__(self, engine: SimulationEngine, timeout_s: float) -> None:
        self._engine = engine
        self.timeout_s = self._initial_timeout_s = timeout_s
        self._redirected: OrderedDict[str, PendingCall] = OrderedDict()

    async def redirect(self, pending: PendingCall, exchange: HttpExchange) -> None:
        """Send the address at which the result can be polled."""
        call_id = f"fc-{pending.handle.call.seq}"
        self._redirected[call_id] = pending
        if len(self._redirected) > _MAX_REDIRECTED:
            self._redirected.popitem(last=False)
        await _see_other(call_id, exchange)

    async def poll(self, dialect: SimulatedDialect, exchange: HttpExchange) -> None:
        call_id = exchange.request.query_params[CALL_ID_PARAMETER]
        pending = self._redirected.get(call_id)
        if pending is None:
            await respond_error(dialect, exchange, 404, "unknown_call", f"there is no call {call_id!r}")
        elif await pending.handle.wait_done(self.timeout_s):
            await respond_to_ended(pending, self._engine, exchange)
        else:
            await _see_other(call_id, exchange)

    def reset(self) -> None:
        self.timeout_s = self._initial_timeout_s
        self._redirected.clear()


async def _see_other(call_id: str, exchange: HttpExchange) -> None:
    location = exchange.request.url.replace_query_params(**{CALL_ID_PARAMETER: call_id})
    await exchange.respond(303, b"", headers={"location": str(location)})
