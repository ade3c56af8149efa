"""The portal's files, read once: a name that is not among them cannot be asked for."""

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


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is sent, plain and packed."""

    media_type: str
    body: bytes
    packed: bytes
    digest: str

    @classmethod
    def of(cls, name: str, body: bytes) -> "Asset":
        packed = gzip.compress(body, mtime=0)
        return cls(_MEDIA_TYPES[name.rpartition(".")[2]], body, packed, _digest(body))


@dataclass(frozen=True, slots=True)
class Site:
    """`build` names the whole set, so that its files may be kept for ever under that name."""

    build: str
    index: Asset
    assets: dict[str, Asset]

    @property
    def weight(self) -> int:
        """Bytes of everything, unpacked."""
        return len(self.index.body) + sum(len(asset.body) for asset in self.assets.values())


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
    """All modules at once: without this a browser learns of each only from the one that imports it."""
    modules = sorted(name for name in found if name.endswith(".js") and name not in (_ENTRY, _BLOCKING))
    return "\n    ".join(f'<link rel="modulepreload" href="{{{{assets}}}}/{name}">' for name in modules)


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=9).hexdigest()
