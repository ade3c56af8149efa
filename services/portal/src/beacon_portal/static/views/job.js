// One job: what it waits for, the live grid, the answers, and what can be done about it.

import { path } from "../api.js";
import { ago, exact, since, span, untilMoment } from "../clock.js";
import { attr, el } from "../dom.js";
import { jobActions } from "../job/actions.js";
import { Answers, questionHead } from "../job/answers.js";
import { Feed } from "../job/feed.js";
import { Grid } from "../job/grid.js";
import { History } from "../job/history.js";
import { outputNode } from "../job/output.js";
import { matrixPlan } from "../job/plan.js";
import { JobState } from "../job/state.js";
import { waitingPanel } from "../job/waiting.js";
import { badge, facts, notice, pageHead, panel, progressBar } from "../parts.js";
import { LIVE, failureWords, stateOf, titled } from "../words.js";

const FEW = 200;
const FACTS = [
  ["position", "Position"], ["wait", "Expected wait"], ["next", "Next attempt in"], ["stage", "Stage"],
  ["done", "Executions done"], ["priority", "Class"], ["tier", "Tier"], ["attempt", "Attempt"], ["created", "Created"],
  ["runs", "Running for"], ["took", "Took"], ["paid", "Paid to skip"],
];

export function jobView(context) {
  const { api, params, signal } = context;
  const said = notice();
  const node = el("div", {}, pageHead("Job"), said.node);
  api.get(path`api/v1/jobs/${params.id}`, { signal })
    .then((view) => node.replaceChildren(...jobPage(context, view)))
    .catch((error) => {
      if (error.status === 404) said.say("There is no such job, or it belongs to somebody else.", "bad");
      else said.fail(error);
    });
  return { title: "Job", node };
}

function jobPage(context, view) {
  const { api, shell, signal } = context;
  const state = new JobState(view);
  const history = new History();
  const said = notice();
  const feed = new Feed(api, view.job_id, signal, { state, changed: refresh, heard: (event) => history.add(event) });
  const doings = {
    retry: (execution) => act(() => api.post(path`api/v1/executions/${execution.id}/retry-question`), "Retry accepted"),
    fetchOutput: (execution) => fetchOutput(api, state, execution, signal).then(refresh, () => {}),
  };
  const head = jobHead(view);
  const actions = jobActions(context, state, act);
  const waiting = waitingPanel(context, state, { refresh: () => feed.refresh(), changed: () => refresh() });
  const body = view.kind === "matrix" ? matrixBody(state, doings) : stepsBody(state, doings);
  let lastStatus = view.status;

  async function act(work, done) {
    try {
      await work();
      said.say("");
      shell.announce(done);
    } catch (error) {
      said.fail(error);
    }
    await feed.refresh();
    feed.follow();
  }

  function refresh() {
    if (state.view.status !== lastStatus) shell.announce(`Job ${stateOf(state.view.status).label}`);
    lastStatus = state.view.status;
    for (const part of [head, actions, waiting, body]) part.update(state.view);
  }

  refresh();
  if (LIVE.has(view.status) || view.progress.total <= FEW) feed.follow();
  else history.node.addEventListener("toggle", () => feed.follow(), { once: true });
  const tick = setInterval(() => head.update(state.view), 1000);
  signal.addEventListener("abort", () => clearInterval(tick));
  const top = pageHead(view.name || `${titled(view.kind)} job`, head.badge, actions.node);
  top.append(el("p", { class: "under mono muted" }, view.job_id));
  document.title = `${view.name || view.job_id} · Beacon`;
  queueMicrotask(() => top.querySelector("h1").focus({ preventScroll: true }));
  return [top, said.node, head.node, waiting.node, ...body.nodes, history.node];
}

function jobHead(view) {
  const state = badge(view.status);
  const bar = progressBar();
  const shown = facts(FACTS);
  const failure = notice();
  const node = el("section", { class: "panel stack", "aria-label": "Progress" }, bar.node, shown.node, failure.node);
  const update = (next) => {
    state.update(next.status);
    bar.update(next.progress);
    shown.update(factsOf(next));
    failure.say(next.failure ? failureWords(next.failure) : "", next.status === "retrying" ? "warn" : "bad");
  };
  return { node, badge: state.node, update };
}

function factsOf(job) {
  const { progress } = job;
  const live = LIVE.has(job.status);
  const done = progress.completed + progress.failed + progress.cancelled;
  const waits = job.status === "queued";
  return {
    position: waits && job.position !== null ? job.position : null,
    wait: live ? waitWords(job.estimated_wait_s, waits) : null,
    next: job.status === "retrying" && job.next_attempt_at ? span(Math.round(untilMoment(job.next_attempt_at))) : null,
    stage: job.stages > 1 ? `${Math.min(job.stage + 1, job.stages)} of ${job.stages}` : null,
    done: `${done} of ${progress.total}${progress.failed ? `, ${progress.failed} failed` : ""}`,
    priority: titled(job.priority),
    tier: titled(job.tier),
    attempt: job.attempt > 1 ? job.attempt : null,
    created: live ? ago(job.created_at) : exact(job.created_at),
    runs: live && job.started_at ? span(Math.round(since(job.started_at))) : null,
    took: job.started_at && job.finished_at ? span(since(job.started_at, job.finished_at)) : null,
    paid: job.price_paid ? `${job.price_paid} credits` : null,
  };
}

function waitWords(seconds, waits) {
  if (!Number.isFinite(seconds)) return null;
  if (seconds < 1) return waits ? "a moment" : null;
  return `about ${span(Math.ceil(seconds))}`;
}

function matrixBody(state, doings) {
  const plan = matrixPlan(state.view.executions);
  const prompts = new Map((state.view.spec?.questions ?? []).map(({ id, prompt }) => [id, prompt]));
  const grid = new Grid(plan, state, choose);
  const answers = new Answers(state, doings);
  const heading = questionHead(plan.rows, choose);

  function choose(item, id) {
    const row = plan.rows.find((candidate) => candidate.item === item);
    grid.choose(item);
    heading.update(item, prompts.get(item));
    answers.show(() => plan.columns.map(({ key }) => row.cells.get(key)).filter(Boolean));
    answers.focus(id);
  }

  if (plan.rows.length) choose(plan.rows[0].item);
  const side = el("section", { class: "panel", "aria-label": "Answers" }, heading.node, answers.node);
  const nodes = [panel("Questions × models × regions", grid.node), side];
  return { nodes, update: () => { grid.refresh(); answers.refresh(); } };
}

function stepsBody(state, doings) {
  const answers = new Answers(state, doings);
  attr(answers.node, "data-steps", true);
  answers.show(() => [...state.executions.keys()]);
  const title = state.view.kind === "pipeline" ? `Steps of ${state.view.spec?.feature ?? "the pipeline"}` : "Result";
  const asked = state.view.spec?.input;
  const nodes = [asked && panel("Asked", outputNode(asked)), panel(title, answers.node)].filter(Boolean);
  return { nodes, update: () => answers.refresh() };
}

async function fetchOutput(api, state, execution, signal) {
  const full = await api.get(path`api/v1/executions/${execution.id}`, { signal });
  state.put(full);
}
