"""The limit of HTTP: a FastAPI app on the same server that validates a submission and echoes it."""

import sys
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from beacon_contracts.jobs import JobSubmission
from beacon_http.server import HttpServer
from beacon_lifecycle import Supervisor, run_process


def application() -> FastAPI:
    app = FastAPI()

    async def echo(submission: JobSubmission) -> Any:
        return submission

    app.post("/api/v1/jobs", status_code=202)(echo)
    return app


async def build() -> Supervisor:
    return Supervisor(
        [HttpServer(application(), host="127.0.0.1", port=0, ready_file=Path(sys.argv[1]))],
        stop_timeout_s=5,
    )


if __name__ == "__main__":
    sys.exit(run_process(build))
