"""Log lines in the terminal."""

from pathlib import Path

from beacon_devstack.processes.log_tail import LogTail
from beacon_lifecycle import ManualClock


def follower(tmp_path: Path, shown: list[tuple[str, str]]) -> LogTail:
    logs = {"runner": tmp_path / "runner.log", "router": tmp_path / "router.log"}
    return LogTail(logs, lambda component, line: shown.append((component, line)), clock=ManualClock())


def write(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as log:
        log.write(text)


def test_only_new_complete_lines_are_shown(tmp_path: Path) -> None:
    shown: list[tuple[str, str]] = []
    write(tmp_path / "runner.log", "of the last run\n")
    logs = follower(tmp_path, shown)
    assert logs.run_once() == 0
    write(tmp_path / "runner.log", "first\nsec")
    assert logs.run_once() == 1
    write(tmp_path / "runner.log", "ond\n")
    write(tmp_path / "router.log", "other\n")
    assert logs.run_once() == 2
    assert shown == [("runner", "first"), ("runner", "second"), ("router", "other")]


def test_a_replaced_log_is_read_from_its_start(tmp_path: Path) -> None:
    shown: list[tuple[str, str]] = []
    log = tmp_path / "runner.log"
    write(log, "a long line of before\n")
    logs = follower(tmp_path, shown)
    log.unlink()
    assert logs.run_once() == 0
    write(log, "new\n")
    logs.run_once()
    assert shown == [("runner", "new")]


async def test_the_last_lines_are_shown_at_the_stop(tmp_path: Path) -> None:
    shown: list[tuple[str, str]] = []
    logs = follower(tmp_path, shown)
    await logs.start()
    write(tmp_path / "runner.log", "goodbye\n")
    await logs.stop()
    await logs.stop()
    assert shown == [("runner", "goodbye")]
