"""Models, features, regions and prices, and the user of the key."""

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from beacon_config import BeaconConfig, Derived, LiveConfig
from beacon_config.features import INPUT, FeatureConfig
from beacon_config.tiers import TierConfig
from beacon_contracts.accounts import LimitUse, Me, Scope
from beacon_contracts.catalogue import (
    FeatureList,
    FeatureView,
    ModelList,
    ModelView,
    RegionList,
    RegionView,
    SkipPriceView,
    SkipPricing,
    StepView,
    TierList,
    TierView,
)
from beacon_contracts.ids import USER, UserId, encode_id
from beacon_contracts.router_status import LimitStatus, RegionStatus
from beacon_http.replies import view_response
from beacon_runner.domain.accounts.users import Principal
from beacon_runner.domain.execution.template import references
from beacon_runner.domain.jobs.admission import Admission
from beacon_runner.domain.limits.job_quota import Allowance, QuotaLimit
from beacon_runner.domain.limits.request_quota import RequestLimit, RequestQuota
from beacon_runner.http.auth import ApiKeyCache, principal_of, require_scope
from beacon_runner.http.events.user_streams import STREAMS
from beacon_runner.http.openapi import problems
from beacon_runner.ports.priorities import Priorities
from beacon_runner.ports.request_limits import RequestLimits
from beacon_runner.ports.router import RouterPort
from beacon_runner.ports.submissions import SubmissionStore
from beacon_runner.ports.users import UserStore


@dataclass(frozen=True, slots=True)
class Catalogue:
    live: LiveConfig
    admission: Derived[Admission]
    router: RouterPort
    submissions: SubmissionStore
    users: UserStore
    priorities: Priorities | None
    request_limits: RequestLimits
    stream_limits: RequestLimits

    @property
    def config(self) -> BeaconConfig:
        return self.live.current

    def models(self) -> ModelList:
        return ModelList(
            models=[
                ModelView(
                    id=name,
                    regions=list(self.admission().regions_of(name)),
                    expected_load_s=model.expected_load_s,
                    expected_run_s=model.expected_run_s,
                    max_duration_s=model.max_duration_s,
                    limit=model.limit,
                    exclusive=model.exclusive,
                    input_schema=model.schema_of_inputs,
                )
                for name, model in self.config.models.items()
            ]
        )

    def features(self) -> FeatureList:
        return FeatureList(
            features=[
                FeatureView(
                    name=name,
                    steps=[StepView(name=step.name, model=step.model) for step in feature.steps],
                    inputs=_inputs(feature),
                )
                for name, feature in self.config.features.items()
            ]
        )

    async def regions(self) -> RegionList:
        """With the live state that the routers report; reports about one region are not added up."""
        states: dict[str, RegionStatus] = {}
        groups: dict[str, LimitStatus] = {}
        waiting = 0
        for status in await self.router.status():
            if status.queues is not None:
                states |= status.queues.regions
                groups |= status.queues.groups
                waiting += status.queues.global_retry
        regions = [
            RegionView(
                name=name,
                aliases=region.aliases,
                models=[model for model in self.config.models if name in self.admission().regions_of(model)],
                state=states.get(name),
            )
            for name, region in self.config.regions.items()
        ]
        return RegionList(regions=regions, groups=groups, global_retry=waiting)

    def tiers(self) -> TierList:
        return TierList(
            tiers=[
                TierView(name=name, rank=rank, priority=self.config.tiers[name].job_class)
                for name, rank in self.config.ranks.items()
            ]
        )

    def prices(self) -> SkipPricing:
        return SkipPricing(
            prices=[SkipPriceView(up_to_s=one.up_to_s, price=one.price) for one in self.config.skip_prices]
        )

    async def me(self, principal: Principal) -> Me:
        """Read from the database each time, because limits and credit change."""
        user = await self.users.get(principal.user)
        name = self.config.known_tier(user.tier)
        tier = self.config.tiers[name]
        use = await self.submissions.use_of(user.id, Allowance.of(tier))
        priority = tier.job_class
        if self.priorities is not None:
            priority = await self.priorities.class_of(user.id, priority)
        return Me(
            user_id=encode_id(USER, user.id),
            name=user.name,
            tier=name,
            priority=priority,
            scopes=sorted(principal.scopes),
            credit=user.credit,
            max_duration_s=tier.max_duration_s,
            executions_per_job=tier.executions_per_job,
            models=tier.models,
            limits={
                QuotaLimit.PENDING_JOBS: _limit_use(tier.pending_jobs, use.pending),
                QuotaLimit.JOBS_PER_HOUR: _limit_use(tier.jobs_per_hour, use.this_hour, use.hour_frees_in_s),
                QuotaLimit.IN_FLIGHT_EXECUTIONS: _limit_use(tier.in_flight_executions, use.in_flight),
                QuotaLimit.GPU_SECONDS_PER_DAY: _limit_use(
                    tier.gpu_seconds_per_day, round(use.gpu_seconds_today), use.day_ends_in_s
                ),
                **await self._request_limits(user.id, tier),
                QuotaLimit.STORAGE_BYTES: _limit_use(tier.storage_bytes, use.stored_bytes),
            },
        )

    async def _request_limits(self, user: UserId, tier: TierConfig) -> Mapping[str, LimitUse]:
        quota, stream_quota = RequestQuota.of(tier), RequestQuota.of_streams(tier)
        use = await self.request_limits.use(user, quota)
        streams = await self.stream_limits.use(user, stream_quota)
        return {
            RequestLimit.REQUESTS_PER_MINUTE: _request_limit_use(
                quota.requests_per_minute, use.started, use.room_in_s or None
            ),
            RequestLimit.CONCURRENT_REQUESTS: _request_limit_use(quota.concurrent_requests, use.running),
            STREAMS: _request_limit_use(stream_quota.concurrent_requests, streams.running),
        }


def _limit_use(limit: int | None, used: int, resets_in_s: float | None = None) -> LimitUse:
    if limit is None:
        return LimitUse(used=used)
    return LimitUse(limit=limit, used=used, left=max(limit - used, 0), resets_in_s=resets_in_s)


def _request_limit_use(limit: int | None, used: int, resets_in_s: float | None = None) -> LimitUse:
    """Requests without a limit are not counted."""
    return LimitUse(used=None) if limit is None else _limit_use(limit, used, resets_in_s)


def _inputs(feature: FeatureConfig) -> list[str]:
    named = [name.split(".") for step in feature.steps for name in references(step.input)]
    return list(dict.fromkeys(parts[1] for parts in named if parts[0] == INPUT and len(parts) > 1))


def catalogue_routes(catalogue: Catalogue, keys: ApiKeyCache) -> APIRouter:
    routes = APIRouter(tags=["catalogue"], route_class=require_scope(keys, Scope.USER))

    @routes.get("/api/v1/models", responses={200: {"model": ModelList}, **problems(401, 403, 503)})
    async def list_models() -> Response:
        """The models, and the regions that serve each."""
        return view_response(catalogue.models())

    @routes.get("/api/v1/features", responses={200: {"model": FeatureList}, **problems(401, 403, 503)})
    async def list_features() -> Response:
        """The pipelines, their steps and their input."""
        return view_response(catalogue.features())

    @routes.get("/api/v1/regions", responses={200: {"model": RegionList}, **problems(401, 403, 503)})
    async def list_regions() -> Response:
        """The regions with their live state: depth, slots, breakers."""
        return view_response(await catalogue.regions())

    @routes.get("/api/v1/tiers", responses={200: {"model": TierList}, **problems(401, 403, 503)})
    async def list_tiers() -> Response:
        """The tiers, the highest first."""
        return view_response(catalogue.tiers())

    @routes.get("/api/v1/skip-pricing", responses={200: {"model": SkipPricing}, **problems(401, 403, 503)})
    async def get_skip_pricing() -> Response:
        """The price of a skip by the length of the job."""
        return view_response(catalogue.prices())

    @routes.get("/api/v1/me", responses={200: {"model": Me}, **problems(401, 403, 503)})
    async def get_me(request: Request) -> Response:
        """The user of the key: tier, limits and credit."""
        return view_response(await catalogue.me(principal_of(request)))

    return routes
