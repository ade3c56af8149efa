"""Streams a chat answer word by word over the time its run takes."""

import math

from starlette.types import Send

from beacon_gpusim.core.calls import Call, Outcome
from beacon_gpusim.core.faults import FaultKind
from beacon_gpusim.dialects import OpenAiDialect
from beacon_gpusim.engine import Engine
from beacon_gpusim.http.wire import Exchange, close_connection, reset_connection
from beacon_gpusim.http.work import Work, tell_end

EVENT_STREAM = b"text/event-stream; charset=utf-8"
# Faults whose answer is no stream at all.
_UNSTREAMED = frozenset({FaultKind.NO_BODY, FaultKind.WRONG_CONTENT_TYPE})


async def stream_answer(work: Work, dialect: OpenAiDialect, engine: Engine, exchange: Exchange) -> None:
    """Headers go out when the run starts, so a call that fails before that gets a plain error."""
    ticket, call = work.ticket, work.ticket.call
    await ticket.wait_started()
    kind = None if call.fault is None else call.fault.kind
    if kind in _UNSTREAMED:
        await ticket.wait_done()
    if kind in _UNSTREAMED or call.outcome not in (None, Outcome.COMPLETED):
        await tell_end(work, engine, exchange)
        return
    chunks = list(dialect.chunks(work.order, call, empty=work.empty))
    if kind is FaultKind.BAD_JSON:
        middle = len(chunks) // 2
        chunks[middle] = chunks[middle][:30] + b"\n\n"
    shown = chunks[: len(chunks) // 2] if kind is FaultKind.TRUNCATED else chunks
    headers = [(b"content-type", EVENT_STREAM), (b"cache-control", b"no-cache")]
    await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
    if not await _send_in_time(work, engine, shown, len(chunks), exchange.send):
        await _break_off(call, exchange)
    elif kind is FaultKind.TRUNCATED:
        await ticket.wait_done()
        await close_connection(exchange)
    else:
        await exchange.send({"type": "http.response.body", "body": b""})


async def _break_off(call: Call, exchange: Exchange) -> None:
    if call.outcome is Outcome.RESET:
        await reset_connection(exchange)
    else:
        await close_connection(exchange)


async def _send_in_time(work: Work, engine: Engine, chunks: list[bytes], total: int, send: Send) -> bool:
    """Send each chunk at its share of the run time; false when the run was ended by force."""
    ticket, call = work.ticket, work.ticket.call
    if call.outcome is Outcome.COMPLETED:
        await send({"type": "http.response.body", "body": b"".join(chunks), "more_body": True})
        return True
    planned_s = call.run_s
    for index, chunk in enumerate(chunks):
        await ticket.wait_done(_pause_s(call, planned_s, index / (total - 1), engine.now()))
        if call.outcome not in (None, Outcome.COMPLETED):
            return False
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    return True


def _pause_s(call: Call, planned_s: float, share: float, now: float) -> float | None:
    """Seconds until this share of the run is over; None: when the run is, for the last chunk ends it."""
    started = call.arrived if call.started is None else call.started
    if share == 0:
        return max(0.0, started - now)
    if share == 1 or math.isinf(planned_s):
        return None
    return max(0.0, started + planned_s * share - now)
