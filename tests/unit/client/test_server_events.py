"""Server-sent events are taken apart as the standard says."""

from beacon_client.server_events import EventLines, ServerEvent


def parse(text: str) -> list[ServerEvent]:
    lines = EventLines()
    return [event for line in text.split("\n") if (event := lines.take(line)) is not None]


def test_an_event_has_a_name_data_and_an_id() -> None:
    assert parse("event: x\nid: 7\ndata: {}\n\n") == [ServerEvent("x", "{}", "7")]


def test_data_of_several_lines_is_joined() -> None:
    assert parse("data: a\ndata:b\ndata:  c\n\n") == [ServerEvent("message", "a\nb\n c", None)]


def test_an_id_stays_until_the_next_one() -> None:
    assert [event.id for event in parse("id: 1\ndata: a\n\ndata: b\n\n")] == ["1", "1"]


def test_comments_unknown_fields_and_events_without_data_are_nothing() -> None:
    assert parse(": beat\n\nfoo: bar\n\nevent: x\n\ndata: y\n\n") == [ServerEvent("message", "y", None)]


def test_what_is_not_ended_is_not_there_yet() -> None:
    assert parse("data: a") == []
