"""The portal's files, read once at start: only these names can be requested."""

import gzip
from dataclasses import dataclass
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable

_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_INDEX = "index.html"
_ENTRY = "main.js"
_BLOCKING = "theme.js"
_LAZY = "viewer/"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, plain and compressed."""

    media_type: str
    body: bytes
    compressed: bytes
    digest: str

    @classmethod
    def of(cls, name: str, body: bytes) -> "Asset":
        compressed = gzip.compress(body, mtime=0)
        return cls(_MEDIA_TYPES[name.rpartition(".")[2]], body, compressed, _digest(body))


@dataclass(frozen=True, slots=True)
class Site:
    """All files. `build` is a digest of their content, so that browsers may cache them under it forever."""

    build: str
    index: Asset
    assets: dict[str, Asset]


def load_site() -> Site:
    found = dict(_walk(files("beacon_portal") / "static", ""))
    page = found.pop(_INDEX).decode()
    build = _digest(b"".join(name.encode() + body for name, body in sorted(found.items())))
    assets = {name: Asset.of(name, body) for name, body in found.items()}
    page = page.replace("<!-- modules -->", _preloads(found)).replace("{{assets}}", f"portal/{build}")
    return Site(build, Asset.of(_INDEX, page.encode()), assets)


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            found += _walk(entry, f"{name}/")
        elif name.rpartition(".")[2] in _MEDIA_TYPES:
            found.append((name, entry.read_bytes()))
    return found


def _preloads(found: dict[str, bytes]) -> str:
    """Preload links for the modules: without them a browser finds each only through its importer.

    Those of viewers are loaded when they are needed.
    """
    modules = sorted(
        name
        for name in found
        if name.endswith(".js") and name not in (_ENTRY, _BLOCKING) and not name.startswith(_LAZY)
    )
    return "\n    ".join(f'<link rel="modulepreload" href="{{{{assets}}}}/{name}">' for name in modules)


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=9).hexdigest()
