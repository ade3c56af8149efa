"""Requests generated from both OpenAPI documents: no crash, no undocumented response."""

from typing import Any, cast

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.fixtures.stack import RunningStack
from tests.fixtures.waiting import WAIT_TIMEOUT_S

CRASHES = (500, 502)


def no_crash(_context: Any, response: Any, case: Any) -> None:
    """503 and 504 are valid responses where the document has them."""
    assert response.status_code not in CRASHES, f"{response.status_code} to {case.as_curl_command()}"


CHECKS = [
    no_crash,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = 8
BOUNDED = settings(
    max_examples=EXAMPLES,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def wrong_answers(url: str, headers: dict[str, str]) -> list[str]:
    """Undocumented responses by operation."""
    document = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations: list[Any] = [cast("Any", result).ok() for result in document.get_all_operations()]
    assert len(operations) > 5, "the document is all but empty"
    found = (_wrong(operation, headers) for operation in operations)
    return [line for line in found if line is not None]


def _wrong(operation: Any, headers: dict[str, str]) -> str | None:
    @BOUNDED
    @given(case=operation.as_strategy())
    def ask(case: "schemathesis.Case[Any]") -> None:
        case.call_and_validate(checks=CHECKS, headers=headers, timeout=WAIT_TIMEOUT_S)

    try:
        ask()
    except AssertionError as error:
        return f"{operation.label}: {error}"
    except BaseExceptionGroup as errors:
        return f"{operation.label}: {errors.exceptions}"
    return None


def test_the_runner_answers_as_its_document_says(stack: RunningStack) -> None:
    wrong = wrong_answers(stack.credentials.runner_url, stack.admin)
    assert not wrong, "\n\n".join(wrong)


def test_the_router_answers_as_its_document_says(stack: RunningStack) -> None:
    token = {"Authorization": f"Bearer {stack.credentials.service_token}"}
    wrong = wrong_answers(stack.credentials.router_url, token)
    assert not wrong, "\n\n".join(wrong)
