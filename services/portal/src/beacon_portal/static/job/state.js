// The state of one job: a snapshot, advanced by events. A late event never revives an execution that has ended.

const ENDED = new Set(["completed", "failed", "cancelled"]);
const STATES = {
  EXECUTION_QUEUED: "queued",
  EXECUTION_START: "running",
  EXECUTION_COMPLETE: "completed",
  EXECUTION_FAILED: "failed",
};
const PROGRESS = "EXECUTION_PROGRESS";
const REFINEMENTS = { running: "warming", queued: "backoff" };

export class JobState {
  view;
  executions = new Map();
  /** Executions that wait at the router, with their state there. */
  atRouter = new Map();

  constructor(view) {
    this.replace(view);
  }

  /** Replace everything by a snapshot of the server. An output that it left out stays if it is known. */
  replace(view) {
    this.view = { ...view, progress: { ...view.progress } };
    const before = this.executions;
    this.executions = new Map(view.executions.map((execution) => [execution.id, withOutputOf(execution, before.get(execution.id))]));
  }

  /** Returns whether the event changed an execution; other events need a new snapshot. */
  apply({ type, data, at }) {
    const state = data.state ?? STATES[type];
    const before = this.executions.get(data.execution_id);
    if (type === PROGRESS) return this.#applyProgress(before, data);
    if (!isExecutionEvent(type) || !before || !isNewer(before, { at, ...data, state })) return false;
    this.put({
      ...before,
      state,
      attempt: data.attempt ?? before.attempt,
      actual_region: data.actual_region ?? before.actual_region,
      backend: data.backend ?? before.backend,
      timing: null,
      failure: data.failure ?? null,
      progress: null,
      output: null,
      started_at: startOf(before, state, at),
      finished_at: ENDED.has(state) ? at : null,
      withoutOutput: state === "completed", // events carry no outputs: the card fetches it
    });
    return true;
  }

  /** The progress of the current run; fields that the backend does not report are null. */
  #applyProgress(before, { attempt, percent, message, preview }) {
    if (before?.state !== "running" || before.attempt !== attempt) return false;
    this.put({ ...before, progress: { percent, message, preview } });
    return true;
  }

  /** How much of the job is done, with what backends report of running executions. */
  get percent() {
    const { total, completed, failed, cancelled } = this.view.progress;
    let running = 0;
    for (const { state, progress } of this.executions.values()) if (state === "running") running += progress?.percent ?? 0;
    return Math.min(100, (100 * (completed + failed + cancelled) + running) / Math.max(total, 1));
  }

  /** The state to display. The router distinguishes loading from running, and backoff from waiting. */
  shownState({ id, state }) {
    const where = this.atRouter.get(id);
    return REFINEMENTS[state] === where ? where ?? state : state;
  }

  /** Whether the job has changed without an event: a deferred execution that starts again sends none. */
  isBehind({ status, executions = [] }) {
    return status !== this.view.status
      || executions.some(({ execution_id: id }) => this.executions.get(id)?.state === "pending");
  }

  put(execution) {
    const before = this.executions.get(execution.id);
    this.executions.set(execution.id, execution);
    if (before && before.state !== execution.state) {
      this.view.progress[before.state] -= 1;
      this.view.progress[execution.state] += 1;
    }
  }
}

function withOutputOf(execution, before) {
  const known = execution.withoutOutput && before?.state === "completed" && !before.withoutOutput && before.attempt === execution.attempt;
  return known ? before : execution;
}

function isNewer(before, { state, at, attempt = before.attempt }) {
  if (attempt !== before.attempt) return attempt > before.attempt;
  if (state === "queued" && before.state === "running") return at > before.started_at;
  return !ENDED.has(before.state) && state !== before.state;
}

function startOf(before, state, at) {
  if (state === "running") return at;
  return state === "queued" ? null : before.started_at;
}

export function isExecutionEvent(type) {
  return type in STATES || type === PROGRESS;
}
