"""The files that a job has made, saved into a folder."""

import asyncio
import mimetypes
import re
from collections import Counter
from collections.abc import AsyncIterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beacon_client.downloads import Download, Progress
from beacon_client.runner_http import RunnerHttp
from beacon_contracts.jobs import ExecutionView

MAX_PARALLEL = 4
MAX_NAME = 150
_UNSAFE = re.compile(r"[^\w.-]+")
_FILE_ID = re.compile(r"file_\w+")
_EXTENSIONS = {
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "audio/wav": ".wav",
    "audio/flac": ".flac",
    "audio/ogg": ".ogg",
    "model/gltf-binary": ".glb",
    "video/webm": ".webm",
}


@dataclass(frozen=True, slots=True)
class OutputReference:
    """A file in an output, with the name under which it is saved."""

    id: str
    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file in the target folder; `downloaded` is false if it existed before."""

    path: Path
    file_id: str
    bytes: int
    downloaded: bool


class OutputNames:
    """Unique names in the order of the executions: `q1-flux-US.png`, `image_gen-US.png`."""

    def __init__(self) -> None:
        self._used: Counter[str] = Counter()

    def references(self, execution: ExecutionView) -> Iterator[OutputReference]:
        """The files in the execution's output, each with a name of its own."""
        for found in _references(execution.output):
            name = self._name(execution, found.get("content_type"))
            yield OutputReference(found["file"], name, found["bytes"], found["sha256"])

    def _name(self, execution: ExecutionView, content_type: object) -> str:
        made_by = (execution.step,) if execution.step else (execution.item, execution.model)
        stem = "-".join(safe_name(part) for part in (*made_by, execution.region) if part)[:MAX_NAME]
        ending = extension(content_type) if isinstance(content_type, str) else ""
        self._used[f"{stem}{ending}".casefold()] += 1
        number = self._used[f"{stem}{ending}".casefold()]
        return f"{stem}~{number}{ending}" if number > 1 else f"{stem}{ending}"


async def save_outputs(
    http: RunnerHttp, executions: AsyncIterable[ExecutionView], folder: Path, progress: Progress | None
) -> list[SavedFile]:
    """Download the files of all executions into the folder, in parallel; files that exist are kept."""
    names = OutputNames()
    found = [reference async for execution in executions for reference in names.references(execution)]
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    whole = _WholeProgress(sum(one.bytes for one in found), progress)
    saved: dict[int, SavedFile] = {}
    left = iter(enumerate(found))

    async def work() -> None:
        for number, file in left:
            download = Download(
                file_id=file.id,
                target=folder / file.name,
                size=file.bytes,
                checksum=file.sha256,
                progress=whole.of_one(),
            )
            saved[number] = SavedFile(download.target, file.id, file.bytes, await download.run(http))

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(MAX_PARALLEL):
                tasks.create_task(work())
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    return [saved[number] for number in range(len(found))]


class _WholeProgress:
    """The progress of several transfers as one."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total = total
        self._progress = progress
        self._done = 0

    def of_one(self) -> Progress:
        before = 0

        def report(done: int, _total: int | None) -> None:
            nonlocal before
            self._done += done - before
            before = done
            if self._progress is not None:
                self._progress(self._done, self._total)

        return report


def safe_name(text: str) -> str:
    """The text without separators, control characters, and dots at its ends."""
    return _UNSAFE.sub("-", text).strip(".-") or "output"


def extension(content_type: str) -> str:
    """The ending of file names for a content type, with its dot."""
    return _EXTENSIONS.get(content_type) or mimetypes.guess_extension(content_type) or ".bin"


def _references(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        named = value.get("file")
        if isinstance(named, str) and _FILE_ID.fullmatch(named) and _is_complete(value):
            yield value
            return
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def _is_complete(reference: dict[str, Any]) -> bool:
    return isinstance(reference.get("bytes"), int) and isinstance(reference.get("sha256"), str)
