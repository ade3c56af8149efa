"""The output of a job from the answer of a chat server."""

from typing import Any

import orjson
import pytest
from yarl import URL

from beacon_router.backends import BackendError
from beacon_router.backends.dialects.openai import OpenAiDialect
from beacon_router.backends.types import WireResponse

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def output_of(content: Any, **message: Any) -> Any:
    body = orjson.dumps({"choices": [{"message": {"content": content, **message}}]})
    return orjson.loads(OpenAiDialect(URL("http://gpu"), {}).result(WireResponse(200, {}, body)).output)


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ("yes", "yes"),
        ("", ""),
        (None, ""),
        ([], ""),
        ([{"type": "text", "text": "ye"}, {"type": "text", "text": "s"}], "yes"),
        ([{"type": "text", "text": "a cat"}, IMAGE], {"content": [{"type": "text", "text": "a cat"}, IMAGE]}),
    ],
)
def test_a_content_is_a_text_or_a_list_of_parts(content: Any, output: Any) -> None:
    assert output_of(content) == output


def test_images_next_to_the_content_are_part_of_the_output() -> None:
    parts = [{"type": "text", "text": "here"}]
    assert output_of(parts, images=[IMAGE]) == {"content": "here", "images": [IMAGE]}


@pytest.mark.parametrize("content", [5, {"text": "x"}, ["a text"]])
def test_another_content_is_refused(content: Any) -> None:
    with pytest.raises(BackendError, match="bad_payload"):
        output_of(content)
