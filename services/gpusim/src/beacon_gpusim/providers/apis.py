"""The wire formats of the providers: submissions, and the state of a run."""

import json
from dataclasses import dataclass
from typing import Any, Protocol

from beacon_gpusim.core.outputs import Prompt
from beacon_gpusim.dialects.parsed_call import json_object, object_field, prompt_of, text_field
from beacon_gpusim.providers.runs import ProviderRun, RunPhase


@dataclass(frozen=True, slots=True)
class RunState:
    """`output` is set once the run has completed, `share` while it is running."""

    run: ProviderRun
    phase: RunPhase
    share: float
    output: Any
    base_url: str
    """The base URL of the API that was called."""


_REPLICATE_WORDS = dict(
    zip(RunPhase, ("starting", "processing", "succeeded", "failed", "canceled"), strict=True)
)
_RUNPOD_WORDS = dict(
    zip(RunPhase, ("IN_QUEUE", "IN_PROGRESS", "COMPLETED", "FAILED", "CANCELLED"), strict=True)
)


def progress_bar(share: float) -> str:
    """A progress bar as tqdm prints it, with a carriage return before each state."""
    steps = int(share * 20)
    return (
        f"\r  0%|          | 0/20\r{share:4.0%}|{'#' * (steps // 2):10}| {steps}/20 [00:03<00:05,  2.5it/s]"
    )


class ProviderApi(Protocol):
    name: str
    submit_path: str
    status_path: str
    result_path: str | None
    cancel: tuple[str, str]
    """Method and path."""

    def prompt(self, body: bytes, model: str | None, region: str) -> Prompt:
        """`model`: the part of the address that names it. Raises BadInputError."""
        ...

    def accepted(self, state: RunState) -> tuple[int, Any]:
        """Status and body."""
        ...

    def status(self, state: RunState) -> tuple[int, Any]: ...


class Replicate:
    name = "replicate"
    submit_path = "/replicate/predictions"
    status_path = "/replicate/predictions/{run_id}"
    result_path: str | None = None
    cancel = "POST", "/replicate/predictions/{run_id}/cancel"

    def prompt(self, body: bytes, model: str | None, region: str) -> Prompt:  # noqa: ARG002
        data = json_object(body)
        return prompt_of(text_field(data, "version"), region, object_field(data, "input"))

    def accepted(self, state: RunState) -> tuple[int, Any]:
        return 201, self.status(state)[1]

    def status(self, state: RunState) -> tuple[int, Any]:
        address = f"{state.base_url}/replicate/predictions/{state.run.id}"
        return 200, {
            "id": state.run.id,
            "version": state.run.prompt.model,
            "status": _REPLICATE_WORDS[state.phase],
            "output": state.output,
            "error": "the model has failed" if state.phase is RunPhase.FAILED else None,
            "logs": f"Using seed: 7\n{progress_bar(state.share)}" if state.phase is RunPhase.RUNNING else "",
            "urls": {"get": address, "cancel": f"{address}/cancel"},
        }


class RunPod:
    name = "runpod"
    submit_path = "/runpod/{model}/run"
    status_path = "/runpod/{model}/status/{run_id}"
    result_path: str | None = None
    cancel = "POST", "/runpod/{model}/cancel/{run_id}"

    def prompt(self, body: bytes, model: str | None, region: str) -> Prompt:
        return prompt_of(model or "", region, object_field(json_object(body), "input"))

    def accepted(self, state: RunState) -> tuple[int, Any]:
        return 200, {"id": state.run.id, "status": "IN_QUEUE"}

    def status(self, state: RunState) -> tuple[int, Any]:
        document: dict[str, Any] = {"id": state.run.id, "status": _RUNPOD_WORDS[state.phase], "delayTime": 0}
        if state.phase is RunPhase.RUNNING:
            document["output"] = {"progress": state.share, "message": "step"}
        elif state.phase is RunPhase.COMPLETED:
            document["output"] = state.output
        elif state.phase is RunPhase.FAILED:
            exception = {"error_type": "<class 'RuntimeError'>", "error_message": "the model has failed"}
            document["error"] = json.dumps(exception | {"error_traceback": "Traceback…", "worker_id": "w-1"})
        return 200, document


class Fal:
    name = "fal"
    submit_path = "/fal/{model:path}"
    status_path = "/fal/{model}/{app}/requests/{run_id}/status"
    result_path: str | None = "/fal/{model}/{app}/requests/{run_id}"
    cancel = "PUT", "/fal/{model}/{app}/requests/{run_id}/cancel"

    def prompt(self, body: bytes, model: str | None, region: str) -> Prompt:
        return prompt_of(model or "", region, json_object(body))

    def accepted(self, state: RunState) -> tuple[int, Any]:
        owner, _, app = state.run.prompt.model.partition("/")
        address = f"{state.base_url}/fal/{owner}/{app.partition('/')[0]}/requests/{state.run.id}"
        return 200, {
            "status": "IN_QUEUE",
            "request_id": state.run.id,
            "response_url": address,
            "status_url": f"{address}/status",
            "cancel_url": f"{address}/cancel",
            "queue_position": 0,
        }

    def status(self, state: RunState) -> tuple[int, Any]:
        match state.phase:
            case RunPhase.QUEUED:
                return 202, {"status": "IN_QUEUE", "queue_position": 0}
            case RunPhase.RUNNING:
                logs = [{"message": f"{state.share:.0%} done", "level": "INFO"}]
                return 202, {"status": "IN_PROGRESS", "logs": logs}
            case RunPhase.COMPLETED:
                return 200, {"status": "COMPLETED", "logs": []}
            case RunPhase.CANCELLED:
                return 200, {"status": "CANCELLED"}
            case _:
                failure = {"error": "the model has failed", "error_type": "runner_error"}
                return 200, {"status": "COMPLETED", **failure}


class SimulatedSpawn:
    name = "spawn"
    submit_path = "/spawn"
    status_path = "/spawn/{run_id}"
    result_path: str | None = None
    cancel = "DELETE", "/spawn/{run_id}"

    def prompt(self, body: bytes, model: str | None, region: str) -> Prompt:  # noqa: ARG002
        data = json_object(body)
        given = object_field(data, "params") | object_field(data, "input")
        return prompt_of(text_field(data, "model"), region, given)

    def accepted(self, state: RunState) -> tuple[int, Any]:
        return 200, {"call_id": state.run.id}

    def status(self, state: RunState) -> tuple[int, Any]:
        match state.phase:
            case RunPhase.QUEUED | RunPhase.RUNNING:
                return 202, {"status": state.phase, "progress": state.share, "message": "step"}
            case RunPhase.COMPLETED:
                return 200, {"success": True, "output": state.output}
            case RunPhase.CANCELLED:
                return 404, {"error": "the call was cancelled"}
            case _:
                return 200, {"success": False, "error": "the model has failed"}


APIS: tuple[ProviderApi, ...] = (Replicate(), RunPod(), SimulatedSpawn(), Fal())
