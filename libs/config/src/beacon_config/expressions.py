"""Checks of JMESPath expressions: jmespath itself finds unknown functions only when it evaluates one."""

from collections.abc import Iterator, Mapping
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions

Node = Mapping[str, Any]

REQUEST_SOURCES = ("request_id", "model", "input", "params", "context")
"""The names that expressions of a request can use."""
# Their other children are evaluated over the result of the first one.
_CHAINS = frozenset(
    {"subexpression", "index_expression", "projection", "value_projection", "filter_projection", "pipe"}
)


def checked_expression(text: str) -> str:
    """The text; raises ValueError with the reason if it cannot be evaluated."""
    for node in _nodes(_parsed(text)):
        if node["type"] == "function_expression" and node["value"] not in Functions.FUNCTION_TABLE:
            raise ValueError(f"uses {node['value']}(), which is not a function of JMESPath")
    return text


def checked_request_expression(text: str) -> str:
    """As `checked_expression`, for an expression over `REQUEST_SOURCES`."""
    checked_expression(text)
    if unknown := set(_root_names(_parsed(text))) - set(REQUEST_SOURCES):
        raise ValueError(f"uses {min(unknown)}; a request is made from {', '.join(REQUEST_SOURCES)}")
    return text


def _parsed(text: str) -> Node:
    try:
        parsed: Node = jmespath.compile(text).parsed
    except JMESPathError as error:
        raise ValueError(f"is not a JMESPath expression: {str(error).splitlines()[0]}") from error
    return parsed


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node["children"]:
        yield from _nodes(child)


def _root_names(node: Node) -> Iterator[str]:
    """The fields that the expression reads from its top-level document."""
    if node["type"] == "field":
        yield node["value"]
    elif node["type"] != "expref":
        for child in node["children"][: 1 if node["type"] in _CHAINS else None]:
            yield from _root_names(child)
