"""The meta/payload envelope of pipeline steps."""

import orjson

from beacon_gpusim.core.calls import Call
from beacon_gpusim.core.outputs import emptied, step_data
from beacon_gpusim.dialects.parsed_call import (
    BadInputError,
    Fields,
    ParsedCall,
    json_object,
    object_field,
    prompt_of,
    request_id_of,
    text_field,
)

MODEL_VERSION = "gpusim-1"


class SimulatedExecute:
    name = "execute"

    def __init__(self, region: str) -> None:
        self._region = region

    def parse(self, body: bytes, request_id: str | None) -> ParsedCall:
        data = json_object(body)
        if "meta" not in data:
            raise BadInputError("meta: must be an object")
        meta = object_field(data, "meta")
        payload = object_field(data, "payload")
        params = object_field(payload, "params", where="payload.")
        object_field(payload, "context", where="payload.")
        service = text_field(meta, "service_name", where="meta.")
        return ParsedCall(request_id_of(meta, request_id), prompt_of(service, self._region, params))

    def response(self, parsed: ParsedCall, call: Call, *, empty: bool, media: Fields | None = None) -> bytes:
        data = step_data(call.model, parsed.prompt) if media is None else media
        spent_ms = round((call.load_s + call.run_s) * 1000)
        return orjson.dumps(
            {
                "data": emptied(data) if empty else data,
                "metrics": {
                    "model_version": MODEL_VERSION,
                    "processing_time_ms": spent_ms,
                    "load_s": round(call.load_s, 6),
                    "run_s": round(call.run_s, 6),
                    "region": call.region,
                },
            }
        )

    def error(self, status: int, code: str, message: str) -> bytes:
        return orjson.dumps({"error": {"code": code, "message": message, "status": status}})
