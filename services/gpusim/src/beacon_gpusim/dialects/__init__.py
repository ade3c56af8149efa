"""The three ways a backend is spoken to: modal, openai and execute."""

from beacon_gpusim.dialects.execute import ExecuteDialect
from beacon_gpusim.dialects.modal import ModalDialect
from beacon_gpusim.dialects.openai import OpenAiDialect
from beacon_gpusim.dialects.order import BadInputError, Dialect, Order

__all__ = ["BadInputError", "Dialect", "ExecuteDialect", "ModalDialect", "OpenAiDialect", "Order"]
