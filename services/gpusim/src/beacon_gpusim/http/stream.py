"""Streams a chat response word by word over the duration of its run."""

import math

from starlette.types import Send

from beacon_gpusim.core.calls import Call, CallOutcome
from beacon_gpusim.core.faults import FaultKind
from beacon_gpusim.dialects import SimulatedOpenAi
from beacon_gpusim.engine import SimulationEngine
from beacon_gpusim.http.broken_connections import close_connection, reset_connection
from beacon_gpusim.http.exchange import HttpExchange
from beacon_gpusim.http.pending_call import PendingCall, respond_to_ended

EVENT_STREAM = b"text/event-stream; charset=utf-8"
# Faults whose response is not a stream.
_NOT_STREAMED = frozenset({FaultKind.NO_BODY, FaultKind.WRONG_CONTENT_TYPE})


async def respond_streamed(
    pending: PendingCall, dialect: SimulatedOpenAi, engine: SimulationEngine, exchange: HttpExchange
) -> None:
    """Headers are sent when the run starts, so a call that fails before that gets a plain error."""
    handle, call = pending.handle, pending.handle.call
    await handle.wait_started()
    kind = None if call.fault is None else call.fault.kind
    if kind in _NOT_STREAMED:
        await handle.wait_done()
    if kind in _NOT_STREAMED or call.outcome not in (None, CallOutcome.COMPLETED):
        await respond_to_ended(pending, engine, exchange)
        return
    chunks = list(dialect.chunks(pending.parsed, call, empty=pending.empty))
    if kind is FaultKind.BAD_JSON:
        middle = len(chunks) // 2
        chunks[middle] = chunks[middle][:30] + b"\n\n"
    sent = chunks[: len(chunks) // 2] if kind is FaultKind.TRUNCATED else chunks
    headers = [(b"content-type", EVENT_STREAM), (b"cache-control", b"no-cache")]
    await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
    if not await _send_over_run(pending, engine, sent, len(chunks), exchange.send):
        await _break_off(call, exchange)
    elif kind is FaultKind.TRUNCATED:
        await handle.wait_done()
        await close_connection(exchange)
    else:
        await exchange.send({"type": "http.response.body", "body": b""})


async def _break_off(call: Call, exchange: HttpExchange) -> None:
    if call.outcome is CallOutcome.RESET:
        await reset_connection(exchange)
    else:
        await close_connection(exchange)


async def _send_over_run(
    pending: PendingCall, engine: SimulationEngine, chunks: list[bytes], total: int, send: Send
) -> bool:
    """Send each chunk at its share of the run time; false when the run did not complete."""
    handle, call = pending.handle, pending.handle.call
    if call.outcome is CallOutcome.COMPLETED:
        await send({"type": "http.response.body", "body": b"".join(chunks), "more_body": True})
        return True
    planned_s = call.run_s
    for index, chunk in enumerate(chunks):
        await handle.wait_done(_pause_s(call, planned_s, index / (total - 1), engine.now()))
        if call.outcome not in (None, CallOutcome.COMPLETED):
            return False
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    return True


def _pause_s(call: Call, planned_s: float, share: float, now: float) -> float | None:
    """Seconds until this share of the run is over; None: until the run ends (the last chunk)."""
    started = call.arrived if call.started is None else call.started
    if share == 0:
        return max(0.0, started - now)
    if share == 1 or math.isinf(planned_s):
        return None
    return max(0.0, started + planned_s * share - now)
