"""The limit: a FastAPI app that validates the same body and responds at once."""

import sys
from typing import Any

import uvicorn
from fastapi import FastAPI

from beacon_contracts.inference import InferenceRequest

app = FastAPI()


@app.post("/inference")
async def echo(request: InferenceRequest) -> dict[str, Any]:
    return {"request_id": request.request_id, "state": "completed", "output": request.input["prompt"]}


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False)
