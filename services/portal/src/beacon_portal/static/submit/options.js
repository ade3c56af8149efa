// Options of jobs of every kind: tags, metadata, times, a wait for limits, a webhook.

import { el, field } from "../dom.js";
import { errorTarget } from "./fields.js";

export function jobOptions(draft) {
  const tags = el("input", { value: draft.tags ?? "", placeholder: "nightly, test", autocomplete: "off" });
  const metadata = el("input", { value: draft.metadata ?? "", placeholder: "team=blue, run=7", autocomplete: "off" });
  const start = el("input", { type: "datetime-local", value: draft.start ?? "" });
  const end = el("input", { type: "datetime-local", value: draft.end ?? "" });
  const waits = el("input", { type: "checkbox", checked: draft.waits ?? false });
  const webhook = el("input", { type: "url", value: draft.webhook ?? "", maxlength: 2000, placeholder: "https://example.com/job", autocomplete: "off" });
  const controls = { tags, metadata, not_before: start, expires_at: end, webhook_url: webhook };
  const node = el("details", { open: Object.values(draft).some(Boolean) }, el("summary", {}, "Tags, times and webhook"),
    el("div", { class: "fields" },
      field("Tags", tags, { hint: "Separated by commas." }), field("Metadata", metadata, { hint: "Pairs of key=value." }),
      field("Start at", start, { hint: "Not before this time." }), field("Expires at", end, { hint: "Ends as expired if it has not ended by then." }),
      field("Webhook URL", webhook, { wide: true, hint: "Receives the events of this job, in addition to your webhooks." }),
      el("label", { class: "check wide" }, waits, "Wait for my limits instead of being refused")));
  return {
    node,
    draft: () => ({
      tags: tags.value, metadata: metadata.value, start: start.value, end: end.value, waits: waits.checked, webhook: webhook.value,
    }),
    body: () => ({
      ...(list(tags).length && { tags: list(tags) }),
      ...(list(metadata).length && { metadata: Object.fromEntries(list(metadata).map(pair)) }),
      ...(start.value && { not_before: moment(start) }),
      ...(end.value && { expires_at: moment(end) }),
      ...(waits.checked && { on_limit: "wait" }),
      ...(webhook.value.trim() && { webhook_url: webhook.value.trim() }),
    }),
    problems: () => (list(metadata).every((text) => text.includes("=")) ? [] : [{ field: "metadata", message: "Enter pairs of key=value." }]),
    fieldOf: (name) => errorTarget(controls[name.split(/[.[]/)[0]]),
  };
}

function list(control) {
  return control.value.split(",").map((text) => text.trim()).filter(Boolean);
}

function pair(text) {
  const [key, ...rest] = text.split("=");
  return [key.trim(), rest.join("=").trim()];
}

/** The time of the user's clock with its offset. */
function moment(control) {
  return new Date(control.value).toISOString();
}
