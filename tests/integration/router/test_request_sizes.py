"""A model whose configuration names the field of the request size, over HTTP."""

from tests.fixtures.gpusim import Gpusim
from tests.fixtures.router import Router, backend, router_config, start_router

SMALL, LARGE = 1, 60
LARGE_RUN_S = 0.15


async def test_a_longer_wait_is_predicted_behind_larger_requests(gpu: Gpusim) -> None:
    config = router_config(
        {
            "us-1": backend("US", gpu.url, models=("sized",), slots=1),
            "eu-1": backend("EU", gpu.url, models=("sized",), slots=1),
        },
        models={"sized": {"expected_load_s": 0.0, "expected_run_s": 0.05, "size": "max_tokens"}},
    )
    async with start_router(config) as router:
        for tokens, run_s in ((SMALL, 0.0), (LARGE, LARGE_RUN_S)):
            await gpu.set_models({"sized": {"load": 0.0, "run": run_s}})
            for number in range(8):
                region = ("US", "EU")[number % 2]
                await router.infer(
                    f"{tokens}-{number}", model="sized", region=region, params={"max_tokens": tokens}
                )

        await gpu.hold(model="sized")
        behind_large = await _estimate_behind(router, LARGE, "US")
        behind_small = await _estimate_behind(router, SMALL, "EU")

        assert behind_large > 2 * behind_small
        await gpu.clear_faults()
        await gpu.release()


async def _estimate_behind(router: Router, tokens: int, region: str) -> float:
    """The estimate for the last of five requests of this size."""
    for number in range(5):
        await router.submit(
            f"{region}-{number}",
            model="sized",
            region=region,
            failover="pinned",
            params={"max_tokens": tokens},
            prefer="respond-async",
        )
    view = await router.get(f"{region}-4")
    assert view.eta is not None
    return view.eta.p50_s
