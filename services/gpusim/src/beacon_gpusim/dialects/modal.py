"""A Modal web endpoint: one JSON object in, one out."""

import orjson

from beacon_gpusim.core.calls import Call
from beacon_gpusim.core.outputs import Prompt, model_output
from beacon_gpusim.dialects.parsed_call import (
    ParsedCall,
    duration_of,
    json_object,
    object_field,
    prompt_text,
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
        object_field(data, "params")
        prompt = Prompt(text_field(data, "model"), self._region, prompt_text(given), duration_of(given))
        return ParsedCall(request_id_of(data, request_id), prompt)

    def response(self, parsed: ParsedCall, call: Call, *, empty: bool) -> bytes:
        return orjson.dumps(
            {
                "success": True,
                "request_id": parsed.request_id,
                "model": call.model,
                "region": call.region,
                "output": "" if empty else model_output(parsed.prompt),
                "metrics": {"load_s": round(call.load_s, 6), "run_s": round(call.run_s, 6)},
            }
        )

    def error(self, status: int, code: str, message: str) -> bytes:
        return orjson.dumps({"success": False, "error": message, "code": code, "status": status})
