"""Outputs of the simulated models, deterministic for a model, region and prompt."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

_OPENINGS = (
    "Seen from {region}, the short answer is yes, with care.",
    "In {region} most people would start with the evidence.",
    "Asked in {region}, I would first narrow the question down.",
    "From {region} this looks simpler than it is.",
    "A fair reading in {region} has two sides.",
    "The usual view in {region} is cautious.",
)
_BODIES = (
    "Three things matter: what is known, who is affected, and how it can be checked.",
    "The sources disagree on the details and agree on the outline.",
    "History helps here, but only as a guide to what was tried before.",
    "Small examples show the effect better than large claims do.",
    "The costs come early and the gains come late, so patience decides.",
    "What is left out of the question says as much as what is in it.",
    "Numbers without their spread would only pretend to settle it.",
)
_CLOSINGS = (
    "I would act on it, and look again in a year.",
    "I would not act on it without a second source.",
    "Ask again with a narrower question and the answer gets better.",
    "That is a summary, not a verdict.",
    "The rest is a matter of taste.",
)
_QUOTE_LENGTH = 120


@dataclass(frozen=True, slots=True)
class Prompt:
    """The input of a model, independent of the dialect."""

    model: str
    region: str
    text: str
    duration_s: float | None = None
    seed: int | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """Size and checksum of each file in the input."""

    def seed_or_default(self) -> int:
        """The requested seed, or one that the prompt determines."""
        return fingerprint(self) % 1_000 if self.seed is None else self.seed


def text_output(prompt: Prompt) -> str:
    """A few sentences that name the model, the region and the question."""
    pick = fingerprint(prompt)
    body = _BODIES[pick % len(_BODIES)]
    opening = _OPENINGS[pick // 8 % len(_OPENINGS)].format(region=prompt.region)
    closing = _CLOSINGS[pick // 64 % len(_CLOSINGS)]
    return f"{prompt.model} in {prompt.region} on “{quoted(prompt.text)}”: {opening} {body} {closing}"


def enhanced(prompt: Prompt) -> str:
    return (
        f"{quoted(prompt.text)}, in fine detail, natural light, wide angle "
        f"({prompt.model}, {prompt.region}, seed {fingerprint(prompt) % 1000})"
    )


def step_data(service: str, prompt: Prompt) -> dict[str, Any]:
    """The text of one pipeline step, under the name that later steps read."""
    if service == "prompt_enhancer":
        return {"enhanced_prompt": enhanced(prompt)}
    if service == "fast_chat_llm":
        return {"generated_text": text_output(prompt)}
    return {"output": text_output(prompt)}


def emptied(data: Mapping[str, Any]) -> dict[str, Any]:
    return dict.fromkeys(data, "")


def fingerprint(prompt: Prompt) -> int:
    seed = f"{prompt.model}\0{prompt.region}\0{prompt.text}".encode("utf-8", "replace")
    return int.from_bytes(blake2b(seed, digest_size=8).digest(), "big")


def quoted(text: str) -> str:
    """On one line, cut to a length that fits into a sentence."""
    line = " ".join(text.split())
    return line if len(line) <= _QUOTE_LENGTH else f"{line[: _QUOTE_LENGTH - 1]}…"
