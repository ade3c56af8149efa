"""Identifiers are encoded as text and decoded to the same value; other texts are refused."""

import string
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_contracts import ids
from beacon_contracts.ids import InvalidIdError, JobId

PREFIXES = st.sampled_from([ids.JOB, ids.USER, ids.KEY, ids.EXECUTION])
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


@given(PREFIXES, st.uuids())
def test_ids_are_decoded_to_the_same_value(prefix: str, value: UUID) -> None:
    text = ids.encode_id(prefix, value)
    assert ids.decode_id(prefix, text) == value
    assert len(text) == len(prefix) + 27
    assert set(text.removeprefix(f"{prefix}_")) <= set(ALPHABET)


@given(st.uuids(), st.uuids())
def test_text_sorts_as_the_ids_do(one: UUID, other: UUID) -> None:
    assert (one < other) == (ids.encode_id("job", one) < ids.encode_id("job", other))


@given(PREFIXES, PREFIXES, st.uuids())
def test_an_id_of_another_kind_is_refused(written: str, expected: str, value: UUID) -> None:
    if written != expected:
        with pytest.raises(InvalidIdError):
            ids.decode_id(expected, ids.encode_id(written, value))


@given(st.text(max_size=60) | st.text(ALPHABET + string.ascii_letters + "_", min_size=24, max_size=32))
def test_every_id_has_one_encoding(text: str) -> None:
    for candidate in (text, f"job_{text}"):
        try:
            value = ids.decode_id("job", candidate)
        except InvalidIdError:
            continue
        assert ids.encode_id("job", value) == candidate


@pytest.mark.parametrize(
    "text",
    [
        "",
        "job_",
        "job",
        "JOB_" + "0" * 26,
        "job_" + "0" * 25,
        "job_" + "0" * 27,
        "job_" + "8" + "0" * 25,  # one bit more than 128
        "job_" + "O" * 26,
        "job_" + "u" * 26,
        "job_" + "٣" * 26,  # digits of another script
        "job_" + "0" * 25 + "\n",
        " job_" + "0" * 26,
        "job_0" + "_" + "0" * 24,
    ],
)
def test_malformed_ids_are_refused(text: str) -> None:
    with pytest.raises(InvalidIdError):
        ids.decode_job_id(text)


def test_the_message_shows_the_start_of_a_long_text_only() -> None:
    with pytest.raises(InvalidIdError) as refused:
        ids.decode_job_id("x" * 100_000)
    assert len(str(refused.value)) < 200


def test_later_ids_sort_after_earlier_ones() -> None:
    made = [ids.encode_id("job", ids.new_uuid()) for _ in range(1_000)]
    assert made == sorted(made)
    assert len(set(made)) == 1_000


@given(st.uuids(), st.integers(0, 999_999), st.integers(0, 999_999))
def test_an_execution_id_has_job_stage_and_number(value: UUID, stage: int, ordinal: int) -> None:
    text = ids.encode_execution_id(JobId(value), stage, ordinal)
    assert ids.decode_execution_id(text) == (value, stage, ordinal)


JOB_PART = "exe_" + "0" * 26


@pytest.mark.parametrize(
    "text",
    [
        JOB_PART,
        f"{JOB_PART}.1",
        f"{JOB_PART}.1.2.3",
        f"{JOB_PART}.-1.0",
        f"{JOB_PART}.1.",
        f"{JOB_PART}.1.1234567",
        f"{JOB_PART}.1.²",
        f"{JOB_PART}.01.2",
        f"{JOB_PART}.0.007",
        "job_" + "0" * 26 + ".0.0",
        ".0.0",
    ],
)
def test_malformed_execution_ids_are_refused(text: str) -> None:
    with pytest.raises(InvalidIdError):
        ids.decode_execution_id(text)
