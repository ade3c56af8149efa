"""A job from the flags of `beacon submit`. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from beacon_cli.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFlags:
    prompt: str | None
    models: Sequence[str]
    regions: Sequence[str]
    questions: Sequence[str]
    feature: str | None
    given: dict[str, Any]
    params: dict[str, Any]
    duration: float | None
    name: str
    pinned: bool
    options: dict[str, Any] = field(default_factory=dict)
    """Tags, metadata and times."""
    has_files: bool = False
    """The input gets files as well."""

    @property
    def has_input(self) -> bool:
        return bool(self.given) or self.has_files

    def job(self) -> dict[str, Any] | None:
        """The job that the flags describe, or None."""
        given = [value for value in (self.prompt, self.questions, self.feature) if value]
        if len(given) > 1:
            raise InputError("--prompt, --question and --feature make different kinds of job: give one")
        if not given and not (self.models and self.has_input):
            if self.models or self.regions or self.has_input:
                raise InputError("the job has no input: add --prompt, --input, --question or --feature")
            return None
        made = self._pipeline() if self.feature else self._matrix() if self.questions else self._generation()
        return made | self._shared()

    def _shared(self) -> dict[str, Any]:
        named = {"name": self.name} if self.name else {}
        return {
            "params": self.params,
            "failover": "pinned" if self.pinned else "any",
            **named,
            **self.options,
        }

    def _pipeline(self) -> dict[str, Any]:
        return {"kind": "pipeline", "feature": self.feature, "input": self.given, **self._region()}

    def _matrix(self) -> dict[str, Any]:
        questions = [_question(number, text) for number, text in enumerate(self.questions, 1)]
        return {
            "kind": "matrix",
            "questions": questions,
            "models": list(self.models),
            "regions": list(self.regions),
        }

    def _generation(self) -> dict[str, Any]:
        if len(self.models) != 1:
            raise InputError("a generation needs one --model; several models need --question")
        length = {} if self.duration is None else {"duration": self.duration}
        return {
            "kind": "generation",
            "model": self.models[0],
            **({"prompt": self.prompt} if self.prompt else {}),
            **({"input": self.given} if self.given else {}),
            **length,
            **self._region(),
        }

    def _region(self) -> dict[str, Any]:
        if len(self.regions) > 1:
            raise InputError("one --region for a generation or a pipeline; several need --question")
        return {"region": self.regions[0]} if self.regions else {}


def pairs(texts: Sequence[str] | None) -> dict[str, Any]:
    """Parses `name=value`; a value that is valid JSON is parsed, any other is text."""
    found: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"{text!r} is not of the form name=value")
        try:
            found[name] = orjson.loads(value)
        except orjson.JSONDecodeError:
            found[name] = value
    return found


def _question(number: int, text: str) -> dict[str, str]:
    """`sky=Why is it blue?` names its id; other texts are numbered."""
    head, equals, tail = text.partition("=")
    named = bool(equals) and head.isidentifier()
    return {"id": head, "prompt": tail} if named else {"id": f"q{number}", "prompt": text}
