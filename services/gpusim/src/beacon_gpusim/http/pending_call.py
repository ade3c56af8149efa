"""A call that was accepted over HTTP, and the response to it once it has ended."""

import math
from dataclasses import dataclass
from typing import assert_never

from beacon_gpusim.core.calls import CallOutcome
from beacon_gpusim.core.faults import Fault, FaultKind
from beacon_gpusim.core.media import Delivery, MediaSpec, media_fields, media_of
from beacon_gpusim.dialects import ParsedCall, SimulatedDialect, SimulatedOpenAi
from beacon_gpusim.engine import CallHandle, SimulationEngine
from beacon_gpusim.http.answers import Answer, send_answer
from beacon_gpusim.http.broken_connections import reset_connection
from beacon_gpusim.http.exchange import JSON, HttpExchange
from beacon_gpusim.http.media_routes import media_address


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
            answer = completed_answer(pending, engine.gpu.media.get(call.model), exchange)
            await send_answer(exchange, answer, call.fault)
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


def completed_answer(pending: PendingCall, spec: MediaSpec | None, exchange: HttpExchange) -> Answer:
    """The answer of a completed call: text or media as the model returns it."""
    dialect, parsed, call = pending.dialect, pending.parsed, pending.handle.call
    size = call.fault.size if call.fault is not None and call.fault.kind is FaultKind.HUGE else 0
    if spec is None or isinstance(dialect, SimulatedOpenAi):
        return _json_answer(dialect.response(parsed, call, empty=pending.empty), size)
    size = max(size, spec.min_bytes)
    if spec.delivery is Delivery.BINARY:
        media = media_of(spec.kind, parsed.prompt, min_bytes=size)
        return Answer(media.content_type, [] if pending.empty else media.parts)
    url = media_address(exchange.request, spec.kind, parsed.prompt, size)
    fields = media_fields(spec, parsed.prompt, url, min_bytes=size)
    return Answer(JSON, [dialect.response(parsed, call, empty=pending.empty, media=fields)])


def _json_answer(body: bytes, size: int) -> Answer:
    """A huge one ends with spaces, which JSON allows."""
    missing = max(0, size - len(body))
    return Answer(JSON, [body, *([b" " * 65_536] * (missing // 65_536)), b" " * (missing % 65_536)])


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
