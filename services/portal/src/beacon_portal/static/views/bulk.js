// One action on all jobs that match the filters of the list, with its progress.

import { path } from "../api.js";
import { el, select, setAttr } from "../dom.js";
import { actionButton, confirmAction } from "../components.js";
import { sleep } from "../follow.js";
import { count } from "../labels.js";

const ACTIONS = [["cancel", "Cancel"], ["resume", "Resume"], ["retry", "Retry"], ["delete", "Delete"]];
const EFFECTS = {
  cancel: "Live jobs end, and their running executions are stopped.",
  resume: "Jobs that expired, or failed in a way that can be retried, continue where they stopped.",
  retry: "All jobs that failed or expired run their failed executions again, whatever the failure.",
  delete: "Jobs that have ended are removed with their results, events and files. This cannot be undone.",
};
const DONE = { cancel: "cancelled", resume: "resumed", retry: "queued again", delete: "deleted" };

/** `filter()` is the filter of the list as the API takes it, or null without any condition. */
export function bulkActions({ api, signal }, { filter, notice, changed }) {
  const action = select(ACTIONS, { "aria-label": "Action on all matching jobs" });
  const apply = actionButton("Apply to all matching", async () => {
    const chosen = action.value;
    const label = action.selectedOptions[0].label;
    const sure = await confirmAction({
      title: `${label} all matching jobs?`,
      text: `${EFFECTS[chosen]} This applies to every job that matches the filters, also to those that are not shown.`,
      action: `${label} all`,
      dangerous: chosen === "cancel" || chosen === "delete",
    });
    if (!sure) return;
    try {
      await follow(await api.post("api/v1/jobs/bulk", { action: chosen, filter: filter() }, { signal }));
    } catch (error) {
      notice.showError(error);
    }
  }, { class: "small" });
  const node = el("div", { class: "actions bulk", hidden: true }, action, apply);

  async function follow(operation) {
    for (let now = operation; ; now = await api.get(path`api/v1/operations/${operation.operation_id}`, { signal })) {
      const running = now.state === "running";
      const text = `${count(now.changed, "job")} ${DONE[now.action]}, of ${now.matched.toLocaleString()} that matched${running ? " so far" : ""}.`;
      notice.show(text, running ? "info" : "ok");
      if (!running) break;
      await sleep(700, signal);
    }
    changed();
  }

  return { node, update: () => setAttr(node, "hidden", filter() === null) };
}
