"""A call that was accepted over HTTP, and the response to it once it has ended."""

import math
from dataclasses import dataclass
from typing import assert_never

from beacon_gpusim.core.calls import CallOutcome
from beacon_gpusim.core.faults import Fault, FaultKind
from beacon_gpusim.dialects import ParsedCall, SimulatedDialect
from beacon_gpusim.engine import CallHandle, SimulationEngine
from beacon_gpusim.http.broken_connections import close_connection, reset_connection
from beacon_gpusim.http.exchange import JSON, HttpExchange

_HTML = "text/html; charset=utf-8"
_HTML_ERROR_PAGE = b"<html><body><h1>502 Bad Gateway</h1></body></html>"


@dataclass(frozen=True, slots=True)
class PendingCall:
    dialect: SimulatedDialect
    parsed: ParsedCall
    handle: CallHandle

    @property
    def empty(self) -> bool:
        fault = self.handle.call.fault
        return fault is not None and fault.kind is FaultKind.EMPTY


async def respond_to_ended(pending: PendingCall, engine: SimulationEngine, exchange: HttpExchange) -> None:
    """Respond to a call that has ended."""
    call, dialect = pending.handle.call, pending.dialect
    match call.outcome:
        case CallOutcome.COMPLETED:
            body = dialect.response(pending.parsed, call, empty=pending.empty)
            await _respond_completed(exchange, body, call.fault)
        case CallOutcome.REFUSED:
            wait_s = engine.gpu.retry_after_s(engine.now())
            text = f"all {engine.gpu.slots} slots of {call.region} are taken"
            await respond_error(dialect, exchange, 429, "too_many_requests", text, retry_after_s=wait_s)
        case CallOutcome.ERROR:
            await _respond_fault(dialect, exchange, call.fault or Fault(FaultKind.ERROR))
        case CallOutcome.RESET:
            await reset_connection(exchange)
        case CallOutcome.ABORTED | CallOutcome.CRASHED:
            # A client that disconnected does not receive this; after a reset of the simulator or at a stop
            # the client is still connected.
            await respond_error(dialect, exchange, 503, "aborted", "the run was aborted")
        case None:
            raise RuntimeError(f"call {call.seq} has not ended")
        case _:
            assert_never(call.outcome)


async def respond_error(
    dialect: SimulatedDialect,
    exchange: HttpExchange,
    status: int,
    code: str,
    message: str,
    *,
    retry_after_s: float | None = None,
) -> None:
    headers = None if retry_after_s is None else {"retry-after": str(math.ceil(retry_after_s))}
    await exchange.respond(status, dialect.error(status, code, message), headers=headers)


async def _respond_fault(dialect: SimulatedDialect, exchange: HttpExchange, fault: Fault) -> None:
    message = "a fault rule applies to this call"
    await respond_error(
        dialect, exchange, fault.status, "simulated_fault", message, retry_after_s=fault.retry_after_s
    )


async def _respond_completed(exchange: HttpExchange, body: bytes, fault: Fault | None) -> None:
    """The response, changed as the fault requires."""
    match None if fault is None else fault.kind:
        case FaultKind.NO_BODY:
            await exchange.respond(200, b"")
        case FaultKind.BAD_JSON:
            await exchange.respond(200, body[: len(body) // 2])
        case FaultKind.WRONG_CONTENT_TYPE:
            await exchange.respond(200, _HTML_ERROR_PAGE, media_type=_HTML)
        case FaultKind.TRUNCATED:
            await _send_half(exchange, body)
        case _:
            await exchange.respond(200, body)


async def _send_half(exchange: HttpExchange, body: bytes) -> None:
    headers = [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body))]
    await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
    await exchange.send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
    await close_connection(exchange)
