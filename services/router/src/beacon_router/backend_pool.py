"""The clients of all backends, by name. Those of unchanged backends are kept by a new configuration."""

from collections.abc import Callable, Mapping

from yarl import URL

from beacon_config import BeaconConfig
from beacon_config.topology import BackendConfig
from beacon_config.workflows import WorkflowConfig
from beacon_router.backends import Backend, BackendTransport, health_url, transport_of

Workflows = Mapping[str, WorkflowConfig]
Build = Callable[
    [Mapping[str, BackendConfig], Workflows, Mapping[str, BackendTransport]], Mapping[str, Backend]
]


class BackendPool:
    """`backends` is one mapping, which changes in place. `build` makes clients."""

    def __init__(self, config: BeaconConfig, environ: Mapping[str, str], build: Build) -> None:
        self._build = build
        self._configs: dict[str, object] = {}
        self.backends: dict[str, Backend] = {}
        self.transports: dict[str, BackendTransport] = {}
        self.health_urls: dict[str, URL] = {}
        self.adopt(config, environ)

    def adopt(self, config: BeaconConfig, environ: Mapping[str, str]) -> None:
        """Add those that are new, and replace changed ones: their requests end on the old client."""
        workflows = {
            name: model.workflow for name, model in config.models.items() if model.workflow is not None
        }
        configs = {
            name: (backend, [workflows.get(model) for model in backend.models])
            for name, backend in config.backends.items()
        }
        changed = {
            name: backend
            for name, backend in config.backends.items()
            if self._configs.get(name) != configs[name]
        }
        self.transports = {
            name: transport_of(name, backend, environ) if name in changed else self.transports[name]
            for name, backend in config.backends.items()
        }
        self.backends.update(self._build(changed, workflows, self.transports))
        self._configs = dict(configs)
        self.health_urls = {
            name: health_url(backend)
            for name, backend in config.backends.items()
            if not backend.scale_to_zero
        }

    def keep_only(self, names: set[str]) -> None:
        """The others serve nothing any more."""
        for name in self.backends.keys() - names:
            del self.backends[name]
