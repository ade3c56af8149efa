"""The dialects of the suite: each as one backend in a region of its own, at one simulator."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.fixtures.router import router_config


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """`remote`: its runs continue without a connection. `reports`: its progress reports of a run."""

    name: str
    model: str
    settings: Mapping[str, Any]
    path: str
    remote: bool = False
    reports: frozenset[str] = frozenset()
    workflow: Mapping[str, Any] | None = None

    @property
    def region(self) -> str:
        return self.name.upper()

    def backend(self, gpu_url: str) -> dict[str, Any]:
        return {
            "region": self.region,
            "url": gpu_url + self.path,
            "models": [self.model],
            "slots": 2,
            **self.settings,
        }


_MAPPED = {
    "request": {name: name for name in ("request_id", "model", "input", "params")},
    "output": "output",
    "error": "error",
}
_POLLED = {
    "request": _MAPPED["request"],
    "id": "call_id",
    "status_path": "/{id}",
    "cancel_path": "/{id}",
    "cancel_method": "DELETE",
    "state": "status || (success == `true` && 'completed') || (success == `false` && 'failed')",
    "output": "output",
}
_GRAPH = {
    "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "comfyui-m.safetensors"}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "", "clip": ["4", 1]}},
    "3": {"class_type": "KSampler", "inputs": {"seed": 7, "model": ["4", 0], "positive": ["6", 0]}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["3", 0]}},
}
_PERCENT, _MESSAGE = "percent", "message"
CASES = (
    Case("modal", "modal-m", {"dialect": "modal"}, "/modal"),
    Case("openai", "openai-m", {"dialect": "openai"}, "/v1"),
    Case("execute", "execute-m", {"dialect": "execute"}, "/v1/execute"),
    Case("http", "http-m", {"dialect": "http", "http": _MAPPED}, "/modal"),
    Case(
        "events",
        "events-m",
        {"dialect": "http", "http": _MAPPED},
        "/modal?progress=events",
        reports=frozenset({_PERCENT, _MESSAGE}),
    ),
    Case(
        "lines",
        "lines-m",
        {"dialect": "modal"},
        "/modal?progress=lines",
        reports=frozenset({_PERCENT, _MESSAGE}),
    ),
    Case(
        "replicate",
        "owner/flux",
        {"dialect": "async", "preset": "replicate"},
        "/replicate",
        remote=True,
        reports=frozenset({_PERCENT, _MESSAGE}),
    ),
    Case(
        "runpod",
        "runpod-m",
        {"dialect": "async", "preset": "runpod"},
        "/runpod/runpod-m",
        remote=True,
        reports=frozenset({_PERCENT, _MESSAGE}),
    ),
    Case(
        "fal",
        "fal-ai/flux/schnell",
        {"dialect": "async", "preset": "fal"},
        "/fal",
        remote=True,
        reports=frozenset({_MESSAGE}),
    ),
    Case(
        "polled",
        "polled-m",
        {"dialect": "async", "polling": _POLLED},
        "/spawn",
        remote=True,
        reports=frozenset({_PERCENT, _MESSAGE}),
    ),
    Case(
        "spawned",
        "spawned-m",
        {"dialect": "modal", "spawn": True},
        "/spawn",
        remote=True,
        reports=frozenset({_PERCENT, _MESSAGE}),
    ),
    Case(
        "comfyui",
        "comfyui-m",
        {"dialect": "comfyui"},
        "/comfyui",
        remote=True,
        reports=frozenset({_PERCENT, _MESSAGE, "preview"}),
        workflow={"graph": _GRAPH, "inputs": {"prompt": "6.text"}, "outputs": ["9"]},
    ),
)
REMOTE = tuple(case for case in CASES if case.remote)


def config_of(cases: tuple[Case, ...], gpu_url: str, **router: Any) -> str:
    """Short limits of time, and two attempts."""
    budget = {"expected_load_s": 0.0, "expected_run_s": 0.1, "load_timeout_s": 0.2}
    limits = {
        "attempts": 2,
        "backoff_max_s": 0.05,
        "breaker_failures": 1_000,
        "breaker_open_s": 0.5,
        "stop_grace_s": 0.1,
    }
    return router_config(
        {case.name: case.backend(gpu_url) for case in cases},
        models={
            case.model: budget | ({} if case.workflow is None else {"workflow": case.workflow})
            for case in cases
        },
        **limits | router,
    )
