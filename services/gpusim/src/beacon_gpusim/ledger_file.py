"""The ledger on disk: one JSON line when a call arrives and one when it ends. Survives kill -9."""

import os
from pathlib import Path

import orjson

from beacon_gpusim.core.calls import Call


class LedgerFile:
    """Appends each line with one system call, so that lines stay whole when processes share a file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._process = os.getpid()

    def record(self, call: Call) -> None:
        line = orjson.dumps({"pid": self._process, **call.record()}, option=orjson.OPT_APPEND_NEWLINE)
        os.write(self._file, line)

    def close(self) -> None:
        os.close(self._file)
