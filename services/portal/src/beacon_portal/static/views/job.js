// One job: progress, wait reasons, live grid, answers, actions.

import { fetchJob, path } from "../api.js";
import { formatAge, formatDateTime, formatDuration, secondsSince, secondsUntil } from "../clock.js";
import { el, setAttr, setText } from "../dom.js";
import { jobActions } from "../job/actions.js";
import { Answers } from "../job/answers.js";
import { Feed } from "../job/feed.js";
import { History } from "../job/history.js";
import { outputNode } from "../job/output.js";
import { matrixBody } from "../job/matrix.js";
import { MediaViewer, isImage } from "../media/media.js";
import { filesIn } from "../media/files.js";
import { JobState } from "../job/state.js";
import { waitingPanel } from "../job/waiting.js";
import { actionButton, badge, createNotice, facts, pageHeader, panel, progressBar } from "../components.js";
import { LIVE_STATES, count, failureText, formatBytes, outputLabel, sentenceCase, stateOf } from "../labels.js";

const MAX_REPLAYED_EXECUTIONS = 200;
const FACTS = [
  ["position", "Position"], ["wait", "Expected wait"], ["starts", "Starts"], ["expires", "Expires"], ["tags", "Tags"], ["next", "Next attempt in"], ["stage", "Stage"],
  ["done", "Executions done"], ["priority", "Class"], ["tier", "Tier"], ["attempt", "Attempt"], ["created", "Created"],
  ["runs", "Running for"], ["took", "Took"], ["paid", "Paid to skip"],
];

export function jobView(context) {
  const { api, params, signal } = context;
  const notice = createNotice();
  const node = el("div", {}, pageHeader("Job"), notice.node);
  fetchJob(api, params.id, signal)
    .then((view) => node.replaceChildren(...jobPage(context, view)))
    .catch((error) => {
      if (error.status === 404) notice.show("This job does not exist, or it belongs to another user.", "bad");
      else notice.showError(error);
    });
  return { title: "Job", node };
}

function jobPage(context, view) {
  const { api, files, shell, signal } = context;
  const state = new JobState(view);
  const viewer = new MediaViewer(files, signal);
  viewer.gallery = () => imagesOf(state);
  const history = new History();
  const notice = createNotice();
  const feed = new Feed(api, view.job_id, signal, { state, changed: refresh, onEvent: (event) => history.add(event) });
  const executionActions = {
    retry: (execution) => act(() => api.post(path`api/v1/executions/${execution.id}/retry-question`), "Retry accepted"),
    fetchOutput: outputLoader(api, state, signal, refresh),
    viewer,
  };
  const head = jobHead(view);
  const actions = jobActions(context, state, act);
  const waiting = waitingPanel(context, state, { refresh: () => feed.refresh(), changed: () => refresh() });
  const body = view.kind === "matrix" ? matrixBody(state, executionActions, { api, signal, notice }) : stepsBody(state, executionActions);
  const saving = outputsPanel(files, state, notice);
  let lastStatus = view.status;

  async function act(work, message) {
    try {
      await work();
      notice.show("");
      shell.announce(message);
    } catch (error) {
      notice.showError(error);
    }
    await feed.refresh();
    feed.follow();
  }

  function refresh() {
    if (state.view.status !== lastStatus) shell.announce(`Job ${stateOf(state.view.status).label}`);
    lastStatus = state.view.status;
    for (const part of [head, actions, waiting, body, saving]) part.update(state.view, state.percent);
  }

  refresh();
  if (LIVE_STATES.has(view.status) || view.progress.total <= MAX_REPLAYED_EXECUTIONS) feed.follow();
  else history.node.addEventListener("toggle", () => feed.follow(), { once: true });
  const tick = setInterval(() => head.update(state.view, state.percent), 1000);
  signal.addEventListener("abort", () => clearInterval(tick));
  const top = pageHeader(view.name || `${sentenceCase(view.kind)} job`, head.badge, actions.node);
  top.append(el("p", { class: "subtitle mono muted" }, view.job_id));
  document.title = `${view.name || view.job_id} · Beacon`;
  queueMicrotask(() => top.querySelector("h1").focus({ preventScroll: true }));
  return [top, notice.node, head.node, waiting.node, ...body.nodes, saving.node, history.node];
}

function jobHead(view) {
  const state = badge(view.status);
  const bar = progressBar();
  const shown = facts(FACTS);
  const failure = createNotice();
  const node = el("section", { class: "panel stack", "aria-label": "Progress" }, bar.node, shown.node, failure.node);
  const update = (next, percent) => {
    state.update(next.status);
    bar.update(next.progress, percent);
    shown.update(factsOf(next));
    failure.show(next.failure ? failureText(next.failure) : "", next.status === "retrying" ? "warn" : "bad");
  };
  return { node, badge: state.node, update };
}

function factsOf(job) {
  const { progress } = job;
  const live = LIVE_STATES.has(job.status);
  const done = progress.completed + progress.failed + progress.cancelled;
  const waits = job.status === "queued";
  return {
    position: waits && job.position !== null ? job.position : null,
    wait: live ? waitText(job.estimated_wait_s, waits) : null,
    next: job.status === "retrying" && job.next_attempt_at ? formatDuration(Math.round(secondsUntil(job.next_attempt_at))) : null,
    ...scheduleOf(job, live),
    stage: job.stages > 1 ? `${Math.min(job.stage + 1, job.stages)} of ${job.stages}` : null,
    done: `${done} of ${progress.total}${progress.failed ? `, ${progress.failed} failed` : ""}`,
    priority: sentenceCase(job.priority),
    tier: sentenceCase(job.tier),
    attempt: job.attempt > 1 ? job.attempt : null,
    created: live ? formatAge(job.created_at) : formatDateTime(job.created_at),
    runs: live && job.started_at ? formatDuration(Math.round(secondsSince(job.started_at))) : null,
    took: job.started_at && job.finished_at ? formatDuration(secondsSince(job.started_at, job.finished_at)) : null,
    paid: job.price_paid ? `${job.price_paid} credits` : null,
  };
}

function scheduleOf(job, live) {
  const labels = [...(job.tags ?? []), ...Object.entries(job.metadata ?? {}).map(([key, value]) => `${key}=${value}`)];
  const start = job.not_before ? formatDateTime(job.not_before) : "when a limit allows it";
  return {
    starts: job.status === "scheduled" ? start : null,
    expires: live && job.expires_at ? formatDateTime(job.expires_at) : null,
    tags: labels.join(", ") || null,
  };
}

function waitText(seconds, waits) {
  if (!Number.isFinite(seconds)) return null;
  if (seconds < 1) return waits ? "under 1 s" : null;
  return `about ${formatDuration(Math.ceil(seconds))}`;
}

function stepsBody(state, actions) {
  const answers = new Answers(state, actions);
  setAttr(answers.node, "data-steps", true);
  answers.show(() => [...state.executions.keys()].map((id) => ({ id })));
  const title = state.view.kind === "pipeline" ? `Steps of ${state.view.spec?.feature ?? "the pipeline"}` : "Result";
  const input = state.view.spec?.input;
  const nodes = [input && panel("Input", outputNode(input, { viewer: actions.viewer, label: "input" })), panel(title, answers.node)].filter(Boolean);
  return { nodes, update: () => answers.refresh() };
}

/** Loads an output that the state lacks; concurrent calls for one execution share a request. */
function outputLoader(api, state, signal, refresh) {
  const loading = new Set();
  return async ({ id }) => {
    if (loading.has(id)) return;
    loading.add(id);
    try {
      state.put(await api.get(path`api/v1/executions/${id}`, { signal }));
      refresh();
    } catch {
      // The next snapshot has it, or the card asks again when it is shown.
    } finally {
      loading.delete(id);
    }
  };
}

function imagesOf(state) {
  return [...state.executions.values()].flatMap((execution) => filesIn(execution.output).filter(isImage)
    .map((reference) => ({ reference, label: outputLabel(execution) })));
}

/** The outputs that are files, as one download. */
function outputsPanel(files, state, notice) {
  const text = el("span", {});
  const save = actionButton("Download all as ZIP", () => files.downloadAll(state.view.job_id).catch((error) => notice.showError(error)));
  const node = el("section", { class: "panel head-row", "aria-label": "Files", hidden: true }, text, save);
  const update = () => {
    const executions = [...state.executions.values()];
    const found = executions.flatMap(({ output }) => filesIn(output));
    const size = formatBytes(found.reduce((sum, file) => sum + (file.bytes ?? 0), 0));
    const more = executions.some(({ withoutOutput }) => withoutOutput);
    setText(text, more ? `More than ${count(found.length, "file")}` : `${count(found.length, "file")}, ${size}`);
    setAttr(node, "hidden", found.length === 0);
  };
  return { node, update };
}
