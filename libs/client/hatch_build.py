"""Build hook: a wheel of the client contains `beacon_contracts`, so it installs without the workspace."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the models from the workspace, or from the sdist's own copy. Not for editable installs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        candidates = (root / "src/beacon_contracts", root.parent / "contracts/src/beacon_contracts")
        contracts = next(path for path in candidates if path.is_dir())
        build_data["force_include"][str(contracts)] = "beacon_contracts"
