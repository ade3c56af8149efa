"""The index of the ports."""

import re
from pkgutil import iter_modules

from beacon_runner import ports


def test_the_index_names_every_port() -> None:
    modules = {module.name for module in iter_modules(ports.__path__)}
    named = set(re.findall(r"`(\w+)`", ports.__doc__ or ""))
    assert named == modules
