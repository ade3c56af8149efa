"""The reference of all keys, from the models: for `beacon config explain` and docs/configuration.md."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from beacon_config.root import BeaconConfig

PLACEHOLDER = "<name>"
_HEAD = """# Configuration reference

All keys of `beacon.toml`. `make reference` generates this page from the models in `libs/config/`.
`beacon config check` validates a file, and `beacon config explain KEY` describes a key.
A key without a default is required; "-" means that it is left out.
`env:NAME` stands for the value of the environment variable NAME, where a key allows it.
A change applies within seconds ([operations](operations.md#change-the-configuration)); the change of a key
that is marked *Restart* applies when the processes are started again.
"""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a section; `default` None: it is required. `restart`: a change needs a restart."""

    name: str
    type: str
    default: str | None
    meaning: str
    restart: bool


@dataclass(frozen=True, slots=True)
class SectionReference:
    """`name` as in the file: `router`, `backends.<name>`."""

    name: str
    meaning: str
    keys: tuple[Key, ...]


def sections() -> list[SectionReference]:
    """All sections, in the order of the file."""
    schema = BeaconConfig.model_json_schema(by_alias=True)
    definitions = schema["$defs"]
    return [
        section
        for name, field in schema["properties"].items()
        for section in _sections(name, field, definitions)
    ]


def find(key: str) -> list[tuple[SectionReference, Key | None]]:
    """The section or keys that are meant: `router.attempts`, `backends.gpu.url`, `backends.url`, `url`."""
    parts = key.split(".")
    found: list[tuple[SectionReference, Key | None]] = []
    tables: list[tuple[SectionReference, Key | None]] = []
    for section in sections():
        path = section.name.removesuffix("[]").split(".")
        short = [part for part in path if part != PLACEHOLDER]
        if _matches(parts, short) or (path[-1] != PLACEHOLDER and _matches(parts, path)):
            found.append((section, None))
        elif _matches(parts, path):
            tables.append((section, None))
        for known in section.keys:
            patterns = ([*path, known.name], [*short, known.name], [known.name])
            if any(_matches(parts, pattern) for pattern in patterns):
                found.append((section, known))
    return found or tables  # `backends.url` is the key, rather than a backend of that name


def known_keys() -> list[str]:
    """All keys with their sections, without placeholders."""
    return [
        f"{section.name.removesuffix('[]').replace('.' + PLACEHOLDER, '')}.{key.name}"
        for section in sections()
        for key in section.keys
    ]


def restart_patterns() -> list[tuple[str, str]]:
    """How the keys that need a restart begin and end: `router.` and `connections`, `pools.` and `slots`."""
    return [
        (section.name.partition(PLACEHOLDER)[0].rstrip(".") + ".", key.name)
        for section in sections()
        for key in section.keys
        if key.restart
    ]


def markdown() -> str:
    """The text of docs/configuration.md."""
    parts = [_HEAD]
    for section in sections():
        title = (
            f"[[{section.name.removesuffix('[]')}]]" if section.name.endswith("[]") else f"[{section.name}]"
        )
        rows = [
            f"| `{key.name}` | {_cell(key.type)} | {_cell(key.default or '')} | {_cell(_meaning(key))} |"
            for key in section.keys
        ]
        head = ["| key | type | default | meaning |", "|---|---|---|---|"]
        parts.append("\n".join([f"## `{title}`", "", section.meaning, "", *head, *rows, ""]))
    return "\n".join(parts)


def _sections(name: str, field: dict[str, Any], definitions: dict[str, Any]) -> Iterator[SectionReference]:
    field = _without_null(field)
    if "$ref" in field:
        definition = definitions[field["$ref"].rpartition("/")[2]]
        yield from _section(name, definition, definitions)
    elif (entries := _entries(field)) is not None:
        yield from _sections(f"{name}.{PLACEHOLDER}", entries, definitions)
    elif "items" in field:
        yield from _sections(f"{name}[]", field["items"], definitions)


def _section(
    name: str, definition: dict[str, Any], definitions: dict[str, Any]
) -> Iterator[SectionReference]:
    """The section itself, then the tables inside it."""
    if "properties" not in definition:
        return
    required = set(definition.get("required", ()))
    fields: dict[str, Any] = definition["properties"]
    keys = tuple(
        Key(
            key,
            _type(field, definitions),
            None if key in required else _value(field.get("default")),
            field.get("description", ""),
            bool(field.get("restart")),
        )
        for key, field in fields.items()
    )
    yield SectionReference(name, " ".join(definition.get("description", "").split()), keys)
    for key, field in fields.items():
        yield from _sections(f"{name}.{key}", field, definitions)


def _entries(field: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of the values of a table with free names."""
    patterns = list(field.get("patternProperties", {}).values())
    entries = patterns[0] if patterns else field.get("additionalProperties")
    return entries if isinstance(entries, dict) else None


def _type(field: dict[str, Any], definitions: dict[str, Any]) -> str:
    field = _without_null(field)
    if "$ref" in field:
        field = definitions[field["$ref"].rpartition("/")[2]]
    choices = field.get("enum", [field["const"]] if "const" in field else [])
    if choices:
        return " or ".join(_value(choice) for choice in choices)
    kind = field.get("type", "value")
    if kind == "array":
        return f"list of {_type(field['items'], definitions)}" if "items" in field else "list"
    if kind in ("integer", "number"):
        return f"{kind}{_bounds(field)}"
    formats = {"uri": "URL", "path": "path"}
    names = {"object": "table", "string": "text"}
    return str(formats.get(field.get("format", ""), names.get(kind, kind)))


def _bounds(field: dict[str, Any]) -> str:
    low = [f" ≥ {field['minimum']:g}"] if "minimum" in field else []
    low += [f" > {field['exclusiveMinimum']:g}"] if "exclusiveMinimum" in field else []
    return "".join(low)


def _value(value: Any) -> str:
    """As it is written in the file; a key that is left out has no value."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:g}" if value < 1e6 else f"{value:.0f}"
    return json.dumps(value)


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    """The schema of `X` for a field of type `X | None`."""
    options = [option for option in field.get("anyOf", ()) if option.get("type") != "null"]
    return field | options[0] if options else field


def _matches(parts: list[str], pattern: list[str]) -> bool:
    if len(parts) != len(pattern):
        return False
    return all(expected in (given, PLACEHOLDER) for given, expected in zip(parts, pattern, strict=True))


def _meaning(key: Key) -> str:
    return f"{key.meaning}. *Restart*" if key.restart else key.meaning


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
