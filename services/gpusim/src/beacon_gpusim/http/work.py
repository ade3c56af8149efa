"""One call from the door's side: what was asked, in which dialect, and how its end is told."""

import math
from dataclasses import dataclass
from typing import assert_never

from starlette.types import Send

from beacon_gpusim.core.calls import Outcome
from beacon_gpusim.core.faults import Fault, FaultKind
from beacon_gpusim.dialects import Dialect, Order
from beacon_gpusim.engine import Engine, Ticket
from beacon_gpusim.http.wire import Exchange, reset_connection, send_answer, send_body


@dataclass(frozen=True, slots=True)
class Work:
    dialect: Dialect
    order: Order
    ticket: Ticket

    @property
    def empty(self) -> bool:
        fault = self.ticket.call.fault
        return fault is not None and fault.kind is FaultKind.EMPTY


async def tell_end(work: Work, engine: Engine, exchange: Exchange) -> None:
    """Answer a call that is over."""
    call, dialect, send = work.ticket.call, work.dialect, exchange.send
    match call.outcome:
        case Outcome.COMPLETED:
            body = dialect.answer(work.order, call, empty=work.empty)
            await send_answer(exchange, body, call.fault)
        case Outcome.REFUSED:
            wait_s = engine.gpu.retry_after_s(engine.now())
            text = f"all {engine.gpu.slots} slots of {call.region} are taken"
            await tell_failure(
                dialect, send, status=429, code="too_many_requests", message=text, retry_after_s=wait_s
            )
        case Outcome.ERROR:
            await _tell_fault(dialect, send, call.fault or Fault(FaultKind.ERROR))
        case Outcome.RESET:
            await reset_connection(exchange)
        case Outcome.ABORTED | Outcome.CRASHED:
            # To a client that is gone this goes nowhere; after a reset or at a stop it is the answer.
            await tell_failure(dialect, send, status=503, code="aborted", message="the run was aborted")
        case None:
            raise RuntimeError(f"call {call.seq} is not over")
        case _:
            assert_never(call.outcome)


async def tell_failure(
    dialect: Dialect, send: Send, *, status: int, code: str, message: str, retry_after_s: float | None = None
) -> None:
    headers = [] if retry_after_s is None else [(b"retry-after", b"%d" % math.ceil(retry_after_s))]
    await send_body(send, status, dialect.failure(status, code, message), headers=headers)


async def _tell_fault(dialect: Dialect, send: Send, fault: Fault) -> None:
    await tell_failure(
        dialect,
        send,
        status=fault.status,
        code="simulated_fault",
        message="a fault was asked for",
        retry_after_s=fault.retry_after_s,
    )
