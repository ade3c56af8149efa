"""How backends without a dialect of their own are called: requests and answers by JMESPath expressions."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from beacon_config.expressions import checked_expression, checked_request_expression
from beacon_config.section import Section


def _request_mapping(mapping: dict[str, Any]) -> dict[str, Any]:
    for key, value in mapping.items():
        _check_request_value(value, key)
    return mapping


def _check_request_value(value: Any, path: str) -> None:
    if isinstance(value, str):
        try:
            checked_request_expression(value)
        except ValueError as error:
            raise ValueError(f"{path} {error}") from None
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check_request_value(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _check_request_value(inner, f"{path}[{index}]")
    elif not isinstance(value, bool | int | float):
        raise ValueError(  # noqa: TRY004 - pydantic reports it with its key
            f"{path} is neither an expression nor a number, a boolean, a list or a table"
        )


Expression = Annotated[str, Field(min_length=1, max_length=1_000), AfterValidator(checked_expression)]


RequestMapping = Annotated[dict[str, Any], AfterValidator(_request_mapping)]


def _path(text: str) -> str:
    if not re.fullmatch(r"/[^?#\s]*", text):
        raise ValueError(f"{text!r} is not a path: it begins with / and has no ?, # or space")
    if unknown := set(re.findall(r"\{.*?\}", text)) - {"{model}", "{request_id}"}:
        raise ValueError(f"has {min(unknown)}; only {{model}} and {{request_id}} are replaced")
    return text


CallPath = Annotated[str, AfterValidator(_path)]


class ProgressMapping(Section):
    """Where a backend reports the progress of a run. Expressions are JMESPath."""

    progress: Expression = Field(default="progress", description="The progress, from 0 to 1")
    percent: Expression = Field(default="percent", description="The progress, from 0 to 100")
    message: Expression = Field(
        default="message",
        description="A text for the user. Of several lines the last one is used; the percent of a "
        "progress bar in it (`45%|####    | 9/20`) is used if there is no other",
    )
    preview: Expression = Field(
        default="preview",
        description="An image of the intermediate result: a data URL of at most 64 KiB",
    )


class HttpMapping(ProgressMapping):
    """Requests and answers of the dialect `http`. Expressions are JMESPath.

    Progress is read from answers of several documents: server-sent events, or lines of JSON.
    """

    method: Literal["POST", "PUT", "PATCH", "GET"] = Field(
        default="POST", description="With GET, the request is sent as the query of the URL"
    )
    path: CallPath | None = Field(
        default=None, description="Appended to the url; may contain {model} and {request_id}"
    )
    request: RequestMapping | None = Field(
        default=None,
        description="The fields of the JSON body. Texts are expressions over request_id, model, input, "
        "params and context; other values are constants. Default: the params and the input in one object",
    )
    output: Expression | None = Field(
        default=None, description="The output in a JSON answer; default: the whole answer"
    )
    error: Expression | None = Field(
        default=None,
        description="The error in a JSON answer with status 2xx; if it finds a value, the run has failed",
    )
    usage: Expression | None = Field(
        default=None, description="The usage in a JSON answer: tokens, load_s and run_s"
    )


def _host_names(hosts: list[str]) -> list[str]:
    for host in hosts:
        if not re.fullmatch(r"(\*\.)?[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:[0-9]{1,5})?", host):
            raise ValueError(f"{host!r} is not a host name in small letters, such as cdn.example.com")
    return hosts


HostNames = Annotated[list[str], AfterValidator(_host_names)]
RunPath = Annotated[str, Field(pattern=r"^/[^#\s]*$")]
Words = Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=20)]


class PollingMapping(ProgressMapping):
    """How the dialect `async` submits, polls and cancels a run. Expressions are JMESPath.

    Progress is read from the state of a run.
    """

    submit_path: CallPath | None = Field(
        default=None, description="Appended to the url for a `POST`; may contain {model} and {request_id}"
    )
    request: RequestMapping | None = Field(
        default=None, description="The fields of the JSON body, as in `http.request`"
    )
    idempotency_header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,100}$")] | None = Field(
        default=None,
        description="The header for an idempotency key, if the backend supports one: a submission whose "
        "answer was lost is then repeated three times. Without it, the inference fails and the submission "
        "is not repeated",
    )
    id: Expression = Field(
        default="id",
        description="The id of the run in the answer to the submission; if it is a URL, its path is the id",
    )
    status_path: RunPath = Field(description="Appended to the url for a `GET` of the state; contains {id}")
    result_path: RunPath | None = Field(
        default=None,
        description="Appended to the url for a `GET` of the result of a completed run; default: the state "
        "contains it",
    )
    cancel_path: RunPath | None = Field(default=None, description="Appended to the url to cancel a run")
    cancel_method: Literal["POST", "PUT", "DELETE"] = Field(
        default="POST", description="The method to cancel a run"
    )
    state: Expression = Field(
        default="status",
        description="The word for the state of the run; the following lists have the possible words",
    )
    queued: Words = Field(
        default=["queued"], description="Words for a run that waits or starts; its run timeout has not begun"
    )
    running: Words = Field(default=["running"], description="Words for a run in progress")
    completed: Words = Field(default=["completed"], description="Words for a run that has a result")
    failed: Words = Field(default=["failed"], description="Words for a run that has failed")
    timed_out: Words = Field(
        default=[], description="Words for a run that the backend ended because of a timeout"
    )
    cancelled: Words = Field(default=["cancelled"], description="Words for a run that was cancelled")
    output: Expression | None = Field(
        default=None, description="The output in the result; default: the whole result"
    )
    error: Expression = Field(default="error", description="The error of a failed run in its state")
    account_locked: Expression | None = Field(
        default=None,
        description="True for an answer with status 403 that is about the account, not about the request: "
        "the backend is then not used, and its work waits",
    )
    key_scheme: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,39}$")] = Field(
        default="Bearer", description="The word before the key of `api_key_env` in the header Authorization"
    )
    output_hosts: HostNames = Field(
        default_factory=list,
        description="Hosts of the files that outputs name by URL: they are kept as files unless "
        "`fetch_outputs` is false",
    )
    data_urls: bool = Field(
        default=False, description='With `files = "base64"`: files are sent as data URLs, not as plain base64'
    )

    @model_validator(mode="after")
    def _check_paths(self) -> Self:
        for name in ("status_path", "result_path", "cancel_path"):
            path = getattr(self, name)
            if path is not None and "{id}" not in path:
                raise ValueError(f"{name} {path!r} does not contain {{id}}")
        words = [*self.queued, *self.running, *self.completed, *self.failed, *self.timed_out, *self.cancelled]
        if len(set(words)) < len(words):
            repeated = next(word for word in words if words.count(word) > 1)
            raise ValueError(f"has the word {repeated!r} for two states")
        return self


_INPUT = "merge(params, input)"
POLLING_PRESETS: dict[str, PollingMapping] = {
    "replicate": PollingMapping(
        submit_path="/predictions",
        request={"version": "model", "input": _INPUT},
        status_path="/predictions/{id}",
        cancel_path="/predictions/{id}/cancel",
        queued=["starting"],
        running=["processing"],
        completed=["succeeded"],
        cancelled=["canceled", "aborted"],
        output="output",
        message="logs",
        output_hosts=["replicate.delivery", "*.replicate.delivery"],
        data_urls=True,
    ),
    "runpod": PollingMapping(
        submit_path="/run",
        request={"input": _INPUT},
        status_path="/status/{id}",
        cancel_path="/cancel/{id}",
        queued=["IN_QUEUE"],
        running=["IN_PROGRESS", "RUNNING"],
        completed=["COMPLETED"],
        failed=["FAILED"],
        timed_out=["TIMED_OUT"],
        cancelled=["CANCELLED"],
        output="output",
        progress="output.progress",
        percent="output.percent",
        message="output.message || output",
        preview="output.preview",
    ),
    "fal": PollingMapping(
        submit_path="/{model}",
        id="response_url",
        status_path="/{id}/status?logs=1",
        result_path="/{id}",
        cancel_path="/{id}/cancel",
        cancel_method="PUT",
        queued=["IN_QUEUE"],
        running=["IN_PROGRESS"],
        completed=["COMPLETED"],
        failed=["FAILED"],
        cancelled=["CANCELLED"],
        message="logs[-1].message",
        account_locked="starts_with(detail, 'User is locked')",
        key_scheme="Key",
        output_hosts=["fal.media", "*.fal.media"],
        data_urls=True,
    ),
}
"""The APIs of providers, by name."""
