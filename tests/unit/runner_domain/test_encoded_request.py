"""Requests in their encoded form."""

from hypothesis import given
from hypothesis import strategies as st

from beacon_contracts.inference import InferenceRequest
from beacon_runner.domain.inputs.encoded_request import encode_request

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(), st.lists, max_leaves=5
)


@given(st.dictionaries(st.text(), JSON, max_size=3), st.dictionaries(st.text(), JSON, max_size=3))
def test_a_new_id_changes_nothing_else(given_input: dict[str, object], params: dict[str, object]) -> None:
    request = InferenceRequest(request_id="chatcmpl-1", model="m", input=given_input, params=params)
    renamed = encode_request(request).with_id("chatcmpl-1.2").with_id("chatcmpl-1.3")
    expected = request.model_copy(update={"request_id": "chatcmpl-1.3"})
    assert InferenceRequest.model_validate_json(renamed.body) == expected
    assert (renamed.head.request_id, renamed.head.input, renamed.head.params) == ("chatcmpl-1.3", {}, {})
