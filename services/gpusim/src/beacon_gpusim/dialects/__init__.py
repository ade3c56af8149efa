"""The dialects modal, openai and execute. `providers` simulates those that submit and poll."""

from beacon_gpusim.dialects.execute import SimulatedExecute
from beacon_gpusim.dialects.modal import SimulatedModal
from beacon_gpusim.dialects.openai import SimulatedOpenAi
from beacon_gpusim.dialects.parsed_call import BadInputError, Fields, ParsedCall, SimulatedDialect

__all__ = [
    "BadInputError",
    "Fields",
    "ParsedCall",
    "SimulatedDialect",
    "SimulatedExecute",
    "SimulatedModal",
    "SimulatedOpenAi",
]
