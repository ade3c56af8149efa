"""Dashboards, alerts and scaling query metrics that the running system exposes."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from infra.check import ROOT, manifests
from tests.fixtures.stack import RunningStack
from tests.fixtures.waiting import WAIT_TIMEOUT_S

pytestmark = pytest.mark.stack

METRIC = re.compile(r"\b(?:beacon_(?:runner|router)|gpusim)_[a-z_]+")
SUFFIXES = {"counter": ("_total", "_created"), "histogram": ("_bucket", "_sum", "_count", "_created")}


@pytest.fixture(scope="module")
def exposed(stack: RunningStack) -> set[str]:
    parts = ("runner", "router", "gpusim-us")
    return {
        name
        for part in parts
        for name in metric_names(httpx.get(f"{stack.url(part)}/metrics", timeout=WAIT_TIMEOUT_S).text)
    }


def metric_names(page: str) -> Iterator[str]:
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            yield name
            # the classic format already has _total in a counter's name
            yield from (name.removesuffix("_total") + suffix for suffix in SUFFIXES.get(kind, ()))


def dashboard_queries() -> Iterator[str]:
    dashboard = json.loads((ROOT / "infra/grafana/dashboards/beacon.json").read_text(encoding="utf-8"))
    yield from (target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", []))


def alarm_queries() -> Iterator[str]:
    rules: Any = yaml.safe_load((ROOT / "infra/prometheus/alerts.yml").read_text(encoding="utf-8"))
    yield from (rule["expr"] for group in rules["groups"] for rule in group["rules"])


def scaling_queries() -> Iterator[str]:
    scaled = [manifest for manifest in manifests() if manifest["kind"] == "ScaledObject"]
    yield from (trigger["metadata"]["query"] for one in scaled for trigger in one["spec"]["triggers"])


@pytest.mark.parametrize("source", [dashboard_queries, alarm_queries, scaling_queries])
def test_every_queried_metric_exists(exposed: set[str], source: Any) -> None:
    queried = {name for query in source() for name in METRIC.findall(query)}
    assert queried
    assert queried <= exposed
