"""Streams the progress of a run, then its answer: as server-sent events, or as lines of JSON."""

import orjson

from beacon_gpusim.core.calls import CallOutcome
from beacon_gpusim.core.faults import FaultKind
from beacon_gpusim.engine import SimulationEngine
from beacon_gpusim.http.broken_connections import close_connection
from beacon_gpusim.http.exchange import JSON, HttpExchange
from beacon_gpusim.http.pending_call import PendingCall, completed_answer, respond_to_ended

PROGRESS_PARAMETER = "progress"
"""The query parameter that selects the format of the stream."""
_FORMATS = {"events": ("text/event-stream", b"data: %s\n\n"), "lines": ("application/x-ndjson", b"%s\n")}
_REPORT_EVERY_S = 0.05
_STREAMED = frozenset({None, FaultKind.EMPTY, FaultKind.HOLD, FaultKind.HANG, FaultKind.SLOW_RUN})
"""Calls with other faults get a plain answer."""


async def respond_with_progress(
    pending: PendingCall, engine: SimulationEngine, exchange: HttpExchange
) -> None:
    content_type, form = _FORMATS[exchange.request.query_params[PROGRESS_PARAMETER]]
    handle, call = pending.handle, pending.handle.call
    await handle.wait_started()
    if (call.fault and call.fault.kind) not in _STREAMED:
        await handle.wait_done()
    if call.outcome not in (None, CallOutcome.COMPLETED) or (call.fault and call.fault.kind) not in _STREAMED:
        await respond_to_ended(pending, engine, exchange)
        return
    await exchange.start(content_type, None)
    while not await handle.wait_done(_REPORT_EVERY_S):
        share = call.share_done(engine.now())
        report = orjson.dumps({"progress": share, "message": f"step {int(share * 20)} of 20"})
        await exchange.send_part(form % report)
    if call.outcome is not CallOutcome.COMPLETED:
        await close_connection(exchange)
        return
    answer = completed_answer(pending, engine.gpu.media.get(call.model), exchange)
    if answer.content_type == JSON:
        await exchange.send_part(form % b"".join(answer.parts))
    await exchange.end()
