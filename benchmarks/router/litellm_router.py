"""LiteLLM's Router class as a peer: a program in its own environment that calls the backend directly.

    python litellm_router.py <gpusim url> <requests> <in flight>

Prints one JSON object: seconds, latencies, CPU seconds.
"""

import asyncio
import importlib
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

PROMPT = "Why is the sky blue, and what would change if it were not?"
UNCOUNTED_EACH = 3


async def drive(router: Any, numbers: Iterator[int], in_flight: int) -> list[float]:
    latencies: list[float] = []

    async def work() -> None:
        for _ in numbers:
            started = time.perf_counter()
            await router.acompletion(model="m", messages=[{"role": "user", "content": PROMPT}])
            latencies.append(time.perf_counter() - started)

    await asyncio.gather(*(work() for _ in range(in_flight)))
    return latencies


async def main() -> dict[str, object]:
    litellm: Any = importlib.import_module("litellm")  # installed only in its own environment
    url, count, in_flight = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    litellm.suppress_debug_info = True
    deployment = {"model": "openai/m", "api_base": f"{url}/v1", "api_key": "none"}
    router = litellm.Router(model_list=[{"model_name": "m", "litellm_params": deployment}])
    await drive(router, iter(range(UNCOUNTED_EACH * in_flight)), in_flight)
    started, cpu = time.perf_counter(), time.process_time()
    latencies = await drive(router, iter(range(count)), in_flight)
    return {
        "seconds": time.perf_counter() - started,
        "cpu": time.process_time() - cpu,
        "latencies": latencies,
    }


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(asyncio.run(main())) + "\n")
