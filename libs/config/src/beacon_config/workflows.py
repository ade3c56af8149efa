"""Workflows of ComfyUI, which the dialect `comfyui` runs as models."""

from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from beacon_config.section import Section

MAX_NODES = 5_000
_FILE_FIELDS = frozenset({"image", "mask", "audio", "video", "file"})
"""Inputs of nodes that load a file: LoadImage, LoadAudio, …"""


def _graph(graph: dict[str, Any]) -> dict[str, Any]:
    """Nodes by their ids, as ComfyUI's `/prompt` takes them."""
    reason = _unusable(graph)
    if reason is not None:
        raise ValueError(reason)
    return graph


def _unusable(graph: dict[str, Any]) -> str | None:
    if isinstance(graph.get("nodes"), list):
        return "is a workflow of the editor: export it with `Export (API)`"
    if not graph or len(graph) > MAX_NODES:
        return f"has {len(graph)} nodes; 1 to {MAX_NODES} are allowed"
    for name, node in graph.items():
        if not isinstance(node, dict) or not isinstance(node.get("class_type"), str):
            return f"node {name!r} has no class_type: it is not a workflow in the API format"
        if not isinstance(node.get("inputs", {}), dict):
            return f"the inputs of node {name!r} are not a table"
    return None


class WorkflowConfig(Section):
    """A workflow of ComfyUI, and the node that each field of the input sets."""

    graph: Annotated[dict[str, Any], AfterValidator(_graph)] = Field(
        description="The workflow in the API format: the path of a JSON file, or a table"
    )
    inputs: dict[str, Annotated[str, Field(pattern=r"^[^.\s]+\.[^\s]+$")]] = Field(
        default_factory=dict,
        description="For each field of an input or of params, the `node.field` that it sets. Other fields "
        "of the input are refused",
    )
    outputs: list[str] = Field(
        default_factory=list, description="The nodes whose files are the output; default: all that save files"
    )

    @model_validator(mode="after")
    def _check_nodes(self) -> Self:
        errors = [*self._input_errors(), *self._output_errors()]
        if errors:
            raise ValueError("\n".join(errors))
        return self

    def input_schema(self) -> dict[str, Any]:
        """The schema of the inputs, by their values in the workflow; no input is required."""
        properties = {name: self._property(*target.split(".", 1)) for name, target in self.inputs.items()}
        return {
            "type": "object",
            "properties": properties,
            # `duration` is a field of every job; it needs no place in a workflow.
            "propertyNames": {"enum": [*properties, "duration"]},
        }

    def _property(self, node: str, field: str) -> dict[str, Any]:
        kind, value = self.graph[node]["class_type"], self.graph[node]["inputs"][field]
        if kind.startswith("Load") and field in _FILE_FIELDS:
            return {"type": ["object", "string"], "properties": {"file": {"type": "string"}}}
        match value:
            case bool():
                return {"type": "boolean", "default": value}
            case int() | float():  # a file in the API format has 7 for both 7 and 7.0
                return {"type": "number", "default": value}
            case str():
                return {"type": "string", "default": value}
        return {}

    def _input_errors(self) -> Iterator[str]:
        for name, target in self.inputs.items():
            node, _, field = target.partition(".")
            if node not in self.graph:
                yield f"inputs.{name} sets {target!r}, but the workflow has no node {node!r}"
            elif field not in self.graph[node].get("inputs", {}):
                kind = self.graph[node]["class_type"]
                yield f"inputs.{name} sets {target!r}, but node {node!r} ({kind}) has no input {field!r}"

    def _output_errors(self) -> Iterator[str]:
        for node in self.outputs:
            if node not in self.graph:
                yield f"outputs names {node!r}, but the workflow has no such node"
