import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_runner.domain.execution.template import MissingReferenceError, references, render

NAMES = {
    "enhance": {"text": "a shining city", "tags": ["one", "two"], "size": 3},
    "input": {"prompt": "city"},
}


def test_a_reference_inside_text_is_filled() -> None:
    assert render("Draw {{ enhance.text }}!", NAMES) == "Draw a shining city!"


def test_a_reference_alone_keeps_the_type_of_the_result() -> None:
    assert render("{{ enhance.tags }}", NAMES) == ["one", "two"]
    assert render({"n": "{{ enhance.size }}"}, NAMES) == {"n": 3}


def test_numbers_and_lists_inside_text_are_written_as_json() -> None:
    assert render("{{ enhance.size }} of {{ enhance.tags }}", NAMES) == '3 of ["one","two"]'


def test_items_of_a_list_are_reached_by_number() -> None:
    assert render("{{ enhance.tags.1 }}", NAMES) == "two"


@pytest.mark.parametrize("text", ["{{ draw.url }}", "{{ enhance.nothing }}", "{{ enhance.tags.9 }}"])
def test_a_missing_result_is_named_in_the_error(text: str) -> None:
    with pytest.raises(MissingReferenceError) as raised:
        render(text, NAMES)
    assert raised.value.reference in text


def test_results_are_never_parsed_as_templates() -> None:
    """A model that answers with braces must not read the results of other steps."""
    names = {"a": {"text": "{{ b.secret }}"}, "b": {"secret": "s3cret"}}
    assert render("said: {{ a.text }}", names) == "said: {{ b.secret }}"


def test_references_are_found_at_every_depth() -> None:
    value = {"a": ["{{ input.prompt }}", {"b": "x {{ enhance.text }} y"}]}
    assert references(value) == ["input.prompt", "enhance.text"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text().filter(lambda text: "{{" not in text),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(json_values)
def test_a_value_without_references_is_left_as_it_is(value: object) -> None:
    assert render(value, NAMES) == value


@given(json_values)
def test_a_whole_reference_keeps_any_result_unchanged(value: object) -> None:
    assert render("{{ step.out }}", {"step": {"out": value}}) == value
