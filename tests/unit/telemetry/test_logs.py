"""One pipeline for all log lines: fields, levels, standard library, and no secrets."""

import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog
from structlog.contextvars import bound_contextvars

from beacon_telemetry import configure_logging

Lines = Callable[[], list[dict[str, Any]]]


def test_a_line_has_its_time_level_service_logger_and_fields(json_lines: Lines) -> None:
    structlog.get_logger("beacon.part").info("job_done", attempt=2)
    [line] = json_lines()
    written = datetime.fromisoformat(line.pop("timestamp"))
    assert written.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - written) < timedelta(minutes=1)
    assert line == {
        "event": "job_done",
        "level": "info",
        "service": "test-service",
        "logger": "beacon.part",
        "attempt": 2,
    }


def test_lines_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("s", "json", "warning")
    structlog.get_logger("a").info("quiet")
    logging.getLogger("b").info("quiet")
    structlog.get_logger("a").warning("loud")
    assert capsys.readouterr().out.count("\n") == 1


def test_bound_ids_are_on_every_line_inside_and_on_none_outside(json_lines: Lines) -> None:
    log = structlog.get_logger("a")
    with bound_contextvars(job_id="j-1"):
        with bound_contextvars(execution_id="e-1"):
            log.info("inner")
        log.info("middle")
        logging.getLogger("asyncpg").warning("from a library")
    log.info("outside")
    ids = [(line["event"], line.get("job_id"), line.get("execution_id")) for line in json_lines()]
    assert ids == [
        ("inner", "j-1", "e-1"),
        ("middle", "j-1", None),
        ("from a library", "j-1", None),
        ("outside", None, None),
    ]


def test_library_loggers_go_through_the_same_pipeline(json_lines: Lines) -> None:
    logging.getLogger("uvicorn.error").info("Started %s of %d", "one", 2)
    logging.getLogger("alembic.runtime").log(25, "an odd level")
    logging.getLogger("asyncpg").log(5, "below debug")
    lines = json_lines()
    assert [(line["event"], line["logger"], line["level"]) for line in lines] == [
        ("Started one of 2", "uvicorn.error", "info"),
        ("an odd level", "alembic.runtime", "level 25"),
    ]


def test_a_level_that_uvicorn_was_given_before_hides_no_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "level", logging.ERROR)
    configure_logging("s", "json", "info")
    logging.getLogger("uvicorn.error").info("Started")
    assert "Started" in capsys.readouterr().out


def test_chatty_libraries_only_warn(json_lines: Lines) -> None:
    logging.getLogger("httpx").info("HTTP Request: GET http://…")
    logging.getLogger("httpx").warning("careful")
    logging.getLogger("uvicorn.access").info("GET / 200")
    assert [line["event"] for line in json_lines()] == ["careful"]
    assert not logging.getLogger("uvicorn.access").propagate, "uvicorn then does not even format its lines"


@pytest.mark.parametrize("through", ["structlog", "standard library"])
def test_an_exception_brings_its_traceback(json_lines: Lines, through: str) -> None:
    try:
        raise ConnectionError("postgres://beacon:hunter2@db/beacon is gone")  # noqa: TRY301
    except ConnectionError:
        logger = structlog.get_logger("a") if through == "structlog" else logging.getLogger("a")
        logger.exception("query_failed")
    [line] = json_lines()
    assert "ConnectionError" in line["exception"]
    assert "hunter2" not in line["exception"]


def test_the_console_shows_the_same_without_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("runner", "console", "info")
    with bound_contextvars(job_id="j-1"):
        structlog.get_logger("a").info("job_done", api_key="abc123")
    line = capsys.readouterr().out
    for part in ("job_done", "service=runner", "job_id=j-1", "api_key=[redacted]"):
        assert part in line


def test_values_that_json_cannot_hold_do_not_lose_the_line(json_lines: Lines) -> None:
    structlog.get_logger("a").info("odd", big=2**100, lone="\ud800", thing=object(), keys={1: "a"})
    structlog.get_logger("a").info("next")
    first, second = json_lines()
    assert first["event"] == "odd"
    assert first["big"] == str(2**100)
    assert second["event"] == "next"


def test_a_reader_that_went_away_does_not_break_the_work(
    json_lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed:
        def write(self, _text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    structlog.get_logger("a").info("not written")
    monkeypatch.undo()
    structlog.get_logger("a").info("but work goes on")
    assert [line["event"] for line in json_lines()] == ["but work goes on"]


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown log level 'loud'"):
        configure_logging("s", "json", "loud")
