"""A Modal web endpoint: one JSON object in, one out."""

import orjson

from beacon_gpusim.core.calls import Call
from beacon_gpusim.core.outputs import emptied, text_output
from beacon_gpusim.dialects.parsed_call import (
    Fields,
    ParsedCall,
    json_object,
    object_field,
    prompt_of,
    request_id_of,
    text_field,
)


class SimulatedModal:
    name = "modal"

    def __init__(self, region: str) -> None:
        self._region = region

    def parse(self, body: bytes, request_id: str | None) -> ParsedCall:
        data = json_object(body)
        given = object_field(data, "input")
        params = object_field(data, "params")
        prompt = prompt_of(text_field(data, "model"), self._region, params | given)
        return ParsedCall(request_id_of(data, request_id), prompt)

    def response(self, parsed: ParsedCall, call: Call, *, empty: bool, media: Fields | None = None) -> bytes:
        if media is None:
            output: str | Fields = "" if empty else text_output(parsed.prompt)
        else:
            output = emptied(media) if empty else media
        return orjson.dumps(
            {
                "success": True,
                "request_id": parsed.request_id,
                "model": call.model,
                "region": call.region,
                "output": output,
                "metrics": {"load_s": round(call.load_s, 6), "run_s": round(call.run_s, 6)},
            }
        )

    def error(self, status: int, code: str, message: str) -> bytes:
        return orjson.dumps({"success": False, "error": message, "code": code, "status": status})
