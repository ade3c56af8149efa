"""The proxy in front of a Modal endpoint: it cuts a request after a while and lets the client poll for it.

The run goes on, with or without a client. Each poll waits as long again.
"""

from collections import OrderedDict
from urllib.parse import parse_qs

from beacon_gpusim.dialects import Dialect
from beacon_gpusim.engine import Engine
from beacon_gpusim.http.wire import Exchange, send_body
from beacon_gpusim.http.work import Work, tell_end, tell_failure

PARAMETER = "__modal_function_call_id"
_KEPT = 10_000


class ProxyCut:
    """Remembers the calls it cut, up to a bound, for the clients that come back for them."""

    def __init__(self, engine: Engine, cut_s: float) -> None:
        self._engine = engine
        self.cut_s = self._set_cut_s = cut_s
        self._works: OrderedDict[str, Work] = OrderedDict()

    async def redirect(self, work: Work, exchange: Exchange) -> None:
        """Tell the client where the answer will be."""
        call_id = f"fc-{work.ticket.call.seq}"
        self._works[call_id] = work
        if len(self._works) > _KEPT:
            self._works.popitem(last=False)
        await _see_other(call_id, exchange)

    async def poll(self, dialect: Dialect, exchange: Exchange) -> None:
        call_id = parse_qs(exchange.scope["query_string"].decode("latin-1")).get(PARAMETER, [""])[0]
        work = self._works.get(call_id)
        if work is None:
            message = f"there is no call {call_id!r}"
            await tell_failure(dialect, exchange.send, status=404, code="unknown_call", message=message)
        elif await work.ticket.wait_done(self.cut_s):
            await tell_end(work, self._engine, exchange)
        else:
            await _see_other(call_id, exchange)

    def reset(self) -> None:
        self.cut_s = self._set_cut_s
        self._works.clear()


async def _see_other(call_id: str, exchange: Exchange) -> None:
    host = exchange.header(b"host")
    base = "" if host is None else f"{exchange.scope['scheme']}://{host}"
    location = f"{base}{exchange.scope['path']}?{PARAMETER}={call_id}"
    await send_body(exchange.send, 303, b"", headers=[(b"location", location.encode("latin-1"))])
