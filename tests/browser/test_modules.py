"""The portal's modules with logic of their own, run in the browser."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from beacon_gpusim.core.media import MediaKind, media_of
from beacon_gpusim.core.outputs import Prompt


@pytest.fixture(scope="module")
def modules(browser: Browser, portal_alone: str) -> Iterator["Modules"]:
    page = browser.new_page(locale="en-GB")
    page.goto(portal_alone)
    yield Modules(page)
    page.close()


class Modules:
    def __init__(self, page: Page) -> None:
        self._page = page
        address = page.locator('script[type="module"]').get_attribute("src")
        assert address is not None
        self._base = address.removesuffix("main.js")

    def run(self, module: str, body: str, *given: Any) -> Any:
        """Runs `(module, given) => body` in the page."""
        script = f"async ([address, given]) => {{ const module = await import(address); {body} }}"
        return self._page.evaluate(script, [f"./{self._base}{module}", list(given)])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (0, "0 s"),
        (0.236, "0.24 s"),
        (9.96, "10.0 s"),
        (12.4, "12 s"),
        (59.7, "1 min"),
        (185, "3 min 5 s"),
        (7860, "2 h 11 min"),
        (273_600, "3 d 4 h"),
    ],
)
def test_durations_are_short_and_never_negative(modules: Modules, seconds: float, text: str) -> None:
    assert modules.run("clock.js", "return module.formatDuration(given[0]);", seconds) == text


def test_a_future_timestamp_has_no_negative_age(modules: Modules) -> None:
    body = """
    const soon = new Date(Date.now() + 60000).toISOString();
    return [module.secondsSince(soon), module.formatAge(soon)];
    """
    assert modules.run("clock.js", body) == [0, "just now"]
    body = "const past = new Date(Date.now() - 60000).toISOString(); return module.secondsUntil(past);"
    assert modules.run("clock.js", body) == 0


PARSE = """
const parser = new module.EventParser();
const seen = [];
for (const piece of given[0]) parser.push(piece, (event) => seen.push(event));
return seen;
"""


def test_an_event_may_arrive_in_chunks_between_heartbeats(modules: Modules) -> None:
    pieces = [
        ": beat\n\nid: 4\neve",
        "nt: JOB_QUEUED\nda",
        'ta: {"a":',
        "1}\n",
        "\n: beat\n\n",
        "data: x\r",
        "\n\r\n",
    ]
    assert modules.run("transports.js", PARSE, pieces) == [
        {"id": "4", "type": "JOB_QUEUED", "data": '{"a":1}'},
        {"id": None, "type": "message", "data": "x"},
    ]


def test_an_event_of_several_lines_is_one_event(modules: Modules) -> None:
    assert modules.run("transports.js", PARSE, ["data: a\ndata:b\n\ndata: unfinished\n"]) == [
        {"id": None, "type": "message", "data": "a\nb"}
    ]


def execution(state: str, attempt: int) -> dict[str, Any]:
    return {"id": "exe_1.0.0", "item": "q1", "model": "m", "region": "US", "state": state, "attempt": attempt}


def job(state: str, attempt: int) -> dict[str, Any]:
    counts = {
        "pending": 0,
        "queued": 0,
        "running": 0,
        "completed": 0,
        "failed": 0,
        "cancelled": 0,
        "total": 1,
    }
    return {
        "progress": counts | {state: 1},
        "executions": [execution(state, attempt)],
        "status": "processing",
    }


def event(kind: str, attempt: int, **more: Any) -> dict[str, Any]:
    data = {"execution_id": "exe_1.0.0", "attempt": attempt, **more}
    return {"type": kind, "at": "2026-01-01T00:00:00Z", "data": data}


APPLY = """
const state = new module.JobState(given[0]);
for (const event of given[1]) state.apply(event);
const progress = Object.entries(state.view.progress).filter(([name, number]) => name !== "total" && number);
return [state.executions.get("exe_1.0.0").state, progress];
"""


@pytest.mark.parametrize(
    ("before", "events", "after"),
    [
        (job("pending", 0), [event("EXECUTION_START", 1)], "running"),
        (job("pending", 0), [event("EXECUTION_START", 1), event("EXECUTION_COMPLETE", 1)], "completed"),
        (job("completed", 1), [event("EXECUTION_START", 1)], "completed"),
        (job("running", 2), [event("EXECUTION_FAILED", 1)], "running"),
        (job("failed", 1), [event("EXECUTION_START", 2)], "running"),
        (job("failed", 1), [event("EXECUTION_START", 1)], "failed"),
        (job("running", 1), [event("EXECUTION_FAILED", 1, state="cancelled")], "cancelled"),
        (job("running", 1), [event("JOB_RETRYING", 1)], "running"),
        (job("pending", 0), [event("EXECUTION_QUEUED", 1)], "queued"),
        (job("pending", 0), [event("EXECUTION_QUEUED", 1), event("EXECUTION_START", 1)], "running"),
        (job("completed", 1), [event("EXECUTION_QUEUED", 1)], "completed"),
    ],
)
def test_a_late_event_never_moves_an_execution_backwards(
    modules: Modules, before: dict[str, Any], events: list[dict[str, Any]], after: str
) -> None:
    assert modules.run("job/state.js", APPLY, before, events) == [after, [[after, 1]]]


PROGRESS = """
const running = { id: "e", state: given[0], attempt: 1 };
const progress = { total: 2, completed: 0, failed: 0, cancelled: 0, running: 1, pending: 1, [given[0]]: 1 };
const state = new module.JobState({ progress, executions: [running] });
const at = "2026-01-01T00:00:05Z";
for (const [type, data] of given[1]) state.apply({ type, at, data: { execution_id: "e", ...data } });
return [state.executions.get("e").progress?.percent ?? null, state.percent];
"""
HALF = ("EXECUTION_PROGRESS", {"attempt": 1, "percent": 50, "message": None, "preview": None})


@pytest.mark.parametrize(
    ("before", "events", "after"),
    [
        ("running", [HALF], [50, 25]),
        ("completed", [HALF], [None, 50]),
        ("running", [("EXECUTION_PROGRESS", {"attempt": 2, "percent": 50})], [None, 0]),
        ("running", [("EXECUTION_PROGRESS", {"attempt": 1, "percent": None, "message": "loads"})], [None, 0]),
        ("running", [HALF, ("EXECUTION_FAILED", {"attempt": 1})], [None, 50]),
    ],
)
def test_progress_is_that_of_the_current_run(
    modules: Modules, before: str, events: list[Any], after: list[Any]
) -> None:
    assert modules.run("job/state.js", PROGRESS, before, events) == after


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        (None, [True, None, "", None]),
        ({"percent": 45.4, "message": "step 9", "preview": None}, [False, "45.4", "45 % · step 9", None]),
        ({"percent": None, "message": None, "preview": None}, [False, None, "", None]),
        (
            {"percent": 0, "message": None, "preview": "data:image/png;base64,AA"},
            [False, "0", "0 %", "data:image/png;base64,AA"],
        ),
        (
            {"percent": 0, "message": None, "preview": "https://elsewhere.example/x.png"},
            [False, "0", "0 %", None],
        ),
        ({"percent": 0, "message": None, "preview": "data:image/svg+xml,<svg>"}, [False, "0", "0 %", None]),
    ],
)
def test_the_progress_of_a_run_has_a_bar_a_text_and_a_preview(
    modules: Modules, progress: Any, shown: list[Any]
) -> None:
    body = """
    const { node, update } = module.runProgress();
    update({ percent: 1, message: "before", preview: "data:image/png;base64,BB" });
    update(null);
    update(given[0]);
    const [bar, text, image] = ["progress", "small", "img"].map((tag) => node.querySelector(tag));
    const shown = [bar.getAttribute("value"), text.textContent, image.getAttribute("src")];
    return [node.hidden, ...(node.hidden ? [null, "", null] : shown)];
    """
    assert modules.run("components.js", body, progress) == shown


@pytest.mark.parametrize(
    ("status", "at_router", "admin"),
    [
        ("processing", [], False),
        ("processing", [{"execution_id": "runs"}], False),
        ("processing", [{"execution_id": "waits"}], True),
        ("completed", [], True),
    ],
)
def test_the_page_detects_changes_without_events(
    modules: Modules, status: str, at_router: list[dict[str, str]], admin: bool
) -> None:
    view = {
        "status": "processing",
        "executions": [{"id": "runs", "state": "running"}, {"id": "waits", "state": "pending"}],
    }
    body = "return new module.JobState(given[0]).isBehind(given[1]);"
    assert modules.run("job/state.js", body, view, {"status": status, "executions": at_router}) is admin


def test_a_matrix_is_laid_out_in_the_servers_order(modules: Modules) -> None:
    places = [("q1", "a", "US"), ("q1", "b", "EU"), ("q1", "a", "EU"), ("q2", "a", "US")]
    given = [{"id": str(n), "item": i, "model": m, "region": r} for n, (i, m, r) in enumerate(places)]
    body = """
    const layout = module.matrixLayout(given[0]);
    const columns = layout.columns.map(({ model, region }) => model + region);
    return [layout.rows.map((row) => row.item), columns, module.modelSpans(layout.columns)];
    """
    rows, columns, spans = modules.run("job/matrix-layout.js", body, given)
    assert rows == ["q1", "q2"]
    assert columns == ["aUS", "aEU", "bEU"]
    assert spans == [{"model": "a", "width": 2}, {"model": "b", "width": 1}]


def test_rows_keep_their_elements_while_the_order_changes(modules: Modules) -> None:
    body = """
    const list = document.createElement("ul");
    let made = 0;
    const rows = new module.KeyedRows(list, (item) => {
      made += 1;
      const node = module.el("li", { "data-number": made });
      return { node, update: (next) => module.setText(node, next.text) };
    });
    const shown = () => [...list.children].map((node) => node.textContent + node.dataset.number).join(" ");
    const seen = [];
    for (const texts of given[0]) {
      rows.show(texts.map((text) => ({ text })), ({ text }) => text);
      seen.push(shown());
    }
    return seen;
    """
    orders = [["a", "b", "c"], ["c", "a", "b"], ["b", "d"], ["d", "a", "a"], []]
    assert modules.run("dom.js", body, orders) == ["a1 b2 c3", "c3 a1 b2", "b2 d4", "d4 a5", ""]


def test_model_output_is_shown_as_text(modules: Modules) -> None:
    body = """
    const node = module.outputNode(given[0]);
    return [node.querySelectorAll("img, script, b").length, node.textContent];
    """
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script><b>bold</b>"
    assert modules.run("job/output.js", body, hostile) == [0, hostile]


@pytest.mark.parametrize("address", ["javascript:alert(1)", "https://a.example/ <b>", "data:text/html,x"])
def test_only_web_addresses_become_links(modules: Modules, address: str) -> None:
    body = "return module.outputNode({ url: given[0] }).querySelectorAll('a').length;"
    assert modules.run("job/output.js", body, address) == 0
    assert modules.run("job/output.js", body, "https://gpusim.invalid/x.png") == 1


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_output_is_shown_as_empty(modules: Modules, empty: str | None) -> None:
    assert (
        modules.run("job/output.js", "return module.outputNode(given[0]).textContent;", empty)
        == "Empty answer"
    )


@pytest.mark.parametrize(
    "output",
    [
        {"images": [{"file": "file_a"}, {"file": "file_b"}]},
        [{"file": "file_a"}, {"file": "file_b"}],
        {"images": [{"url": {"file": "file_a"}, "width": 8}, {"url": {"file": "file_b"}}], "seed": 7},
    ],
    ids=["comfyui", "replicate", "fal"],
)
def test_files_anywhere_in_an_output_are_shown(modules: Modules, output: object) -> None:
    body = """
    const viewer = { node: ({ file }) => Object.assign(document.createElement("img"), { alt: file }) };
    return [...module.outputNode(given[0], { viewer }).querySelectorAll("img")].map(({ alt }) => alt);
    """
    assert modules.run("job/output.js", body, output) == ["file_a", "file_b"]


def test_files_are_found_anywhere_in_an_output(modules: Modules) -> None:
    body = "return module.filesIn(given[0]).map(({ file }) => file);"
    output = {"image": {"file": "file_a"}, "more": [{"file": "file_b"}, {"file": "../x"}, None, "file_c"]}
    assert modules.run("media/files.js", body, output) == ["file_a", "file_b"]


SHOWN_MEDIA = """
const files = { sourceUrl: async () => "about:blank" };
const next = new Promise((resolve) => {
  files.blob = async () => { setTimeout(resolve); return new Blob(["x"]); };
});
const viewer = new module.MediaViewer(files, new AbortController().signal);
const node = viewer.node({ file: "file_a", content_type: given[0], bytes: given[1] }, "output");
document.body.append(node, viewer.node({ file: "file_b", content_type: "image/png", bytes: 1 }, "next"));
await next;
return node.querySelector(".media-body").firstElementChild?.localName ?? null;
"""


@pytest.mark.parametrize(("kind", "element"), [("video/mp4", "video"), ("audio/wav", "audio")])
def test_long_media_is_played_because_only_ranges_are_loaded(
    modules: Modules, kind: str, element: str
) -> None:
    assert modules.run("media/media.js", SHOWN_MEDIA, kind, 900_000_000) == element


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (4_300, "4.3 kB"), (5_000_000_000, "5.0 GB")]
)
def test_sizes_have_the_unit_that_fits(modules: Modules, size: int, text: str) -> None:
    assert modules.run("labels.js", "return module.formatBytes(given[0]);", size) == text


READ_MESH = """
const mesh = module.readMesh(Uint8Array.from(given[0]).buffer);
return mesh && { points: mesh.positions.length / 3, indices: mesh.indices.length, size: Math.max(...mesh.positions.map(Math.abs)) };
"""  # noqa: E501


def test_models_are_read_and_damaged_ones_are_not(modules: Modules) -> None:
    parts = media_of(MediaKind.MODEL, Prompt("gem", "EU", "a gem", seed=1)).parts
    data = list(b"".join(parts))
    mesh = modules.run("viewer/glb.js", READ_MESH, data)
    assert mesh["points"] == mesh["indices"] > 20
    assert 0.5 < mesh["size"] < 0.6
    for damaged in (data[:40], data[: len(data) // 2], [0] * 100, []):
        assert modules.run("viewer/glb.js", READ_MESH, damaged) is None


SCHEMA = {
    "required": ["prompt", "photo"],
    "properties": {
        "prompt": {"type": "string"},
        "photo": {"type": "object", "properties": {"file": {"type": "string"}}, "title": "Your photo"},
        "strength": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5},
        "steps": {"type": "integer"},
        "style": {"enum": ["oil", "ink", 3]},
        "upscale": {"type": "boolean", "default": True},
        "mask": {"type": "array"},
    },
}
SCHEMA_FORM = """
const context = { files: {}, signal: new AbortController().signal, changed() {} };
const form = module.schemaForm(given[0], given[1], context);
document.body.append(form.node);
const fields = form.problems().map(({ field }) => field);
return [form.body().input, fields, form.fieldOf('input.photo.file') !== null, form.fieldOf('input.other')];
"""


def test_a_form_follows_the_schema_of_a_model(modules: Modules) -> None:
    empty = [{"strength": 0.5, "upscale": True}, ["input.prompt", "input.photo"], True, None]
    assert modules.run("submit/schema-form.js", SCHEMA_FORM, SCHEMA, {}) == empty
    draft = {
        "prompt": " a cat ",
        "photo": {"file": "file_a", "name": "cat.png"},
        "strength": "2",
        "steps": "3",
        "style": "3",
        "upscale": False,
        "mask": "[1",
    }
    given, problems, *_ = modules.run("submit/schema-form.js", SCHEMA_FORM, SCHEMA, draft)
    assert given == {
        "prompt": "a cat",
        "photo": {"file": "file_a"},
        "strength": 2,
        "steps": 3,
        "style": 3,
        "upscale": False,
    }
    assert problems == ["input.strength", "input.mask"]


DIFFER = """
const shown = ({ text, common }) => (common ? text : `[${text}]`);
return module.differences(...given).map((pieces) => pieces.map(shown).join(""));
"""


@pytest.mark.parametrize(
    ("one", "other", "marked"),
    [
        ("", "", ["", ""]),
        ("the same", "the same", ["the same", "the same"]),
        ("", "a new text", ["", "[a new text]"]),
        (
            "the quick brown fox jumps",
            "the slow brown fox leaps high",
            ["the [quick] brown fox [jumps]", "the [slow] brown fox [leaps high]"],
        ),
        ("eins, zwei", "eins zwei, drei", ["eins[,] zwei", "eins zwei[, drei]"]),
        ("a b c", "c a b", ["a b[ c]", "[c ]a b"]),
    ],
)
def test_the_words_that_differ_are_marked(modules: Modules, one: str, other: str, marked: list[str]) -> None:
    assert modules.run("job/differences.js", DIFFER, one, other) == marked


def test_long_texts_without_common_words_are_compared_in_bounded_steps(modules: Modules) -> None:
    body = "return module.differences(given[0], given[1])[0].filter(({ common }) => common).length;"
    texts = [" ".join(f"{letter}{number}" for number in range(5_000)) for letter in "ab"]
    assert modules.run("job/differences.js", body, *texts) == 0
