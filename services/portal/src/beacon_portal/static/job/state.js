// One job as this page knows it: a snapshot, moved on by events. A late event never turns a cell back.

const RANKS = { pending: 0, running: 1, completed: 2, failed: 2, cancelled: 2 };
const STATES = { EXECUTION_START: "running", EXECUTION_COMPLETE: "completed", EXECUTION_FAILED: "failed" };

export class JobState {
  view;
  executions = new Map();
  /** Executions that were handed to the router and still wait there, by what for. */
  atRouter = new Map();

  constructor(view) {
    this.replace(view);
  }

  /** What the server says now, whole. Answers that were fetched one by one are in it too. */
  replace(view) {
    this.view = { ...view, progress: { ...view.progress } };
    this.executions = new Map(view.executions.map((execution) => [execution.id, execution]));
  }

  /** Whether the event changed a cell; every other event needs a new snapshot. */
  apply({ type, data, at }) {
    const state = data.state ?? STATES[type];
    const before = this.executions.get(data.execution_id);
    if (!isCellEvent(type) || !before || !isNewer(before, state, data.attempt)) return false;
    this.put({
      ...before,
      state,
      attempt: data.attempt ?? before.attempt,
      actual_region: data.actual_region ?? before.actual_region,
      backend: data.backend ?? before.backend,
      timing: null,
      failure: data.failure ?? null,
      output: null,
      started_at: state === "running" ? at : before.started_at,
      finished_at: state === "running" ? null : at,
      bare: state === "completed", // events carry no answers: whoever shows this one fetches it
    });
    return true;
  }

  /** What to show of an execution: one that waits at the router does not run yet. */
  shownState({ id, state }) {
    const where = state === "running" ? this.atRouter.get(id) : undefined;
    return where === "queued" ? "at_router" : where ?? state;
  }

  /** Whether the job has moved on without an event: a postponed execution that starts again tells of it once only. */
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

function isNewer(before, state, attempt = before.attempt) {
  if (attempt !== before.attempt) return attempt > before.attempt;
  return RANKS[state] > RANKS[before.state];
}

export function isCellEvent(type) {
  return type in STATES;
}
