// Webhooks: endpoints that receive the events of the user's jobs.

import { KeyedRows, el, field, setAttr, setError, setText, table } from "../dom.js";
import { badge, createNotice, emptyNote, pageHeader, panel, reportErrors, showSecret } from "../components.js";
import { formatAge } from "../clock.js";
import { poll } from "../follow.js";
import { Picker } from "../submit/picker.js";

const POLL_INTERVAL_S = 10;
const ADDRESS = "api/v1/webhooks";
const JOB_EVENTS = ["job.completed", "job.partial", "job.failed", "job.cancelled", "job.expired"];
const EVENTS = [...JOB_EVENTS, "execution.failed"].map((id) => ({ id }));

export function webhooksView({ api, signal }) {
  const notice = createNotice();
  const list = table("Webhooks", ["URL", "Events", "Created", "State"]);
  const rows = new KeyedRows(list.body, webhookRow);
  const empty = emptyNote("No webhooks yet.");
  setAttr(empty, "hidden", true);

  const refresh = poll(POLL_INTERVAL_S, signal, async () => {
    const { webhooks } = await reportErrors(notice, () => api.get(ADDRESS, { signal }), "The list of webhooks");
    rows.show(webhooks, (webhook) => webhook.id);
    setAttr(list.node, "hidden", !webhooks.length);
    setAttr(empty, "hidden", Boolean(webhooks.length));
  });

  async function create(body) {
    const made = await api.post(ADDRESS, body);
    showSecret(`Secret of ${made.url}`, "Secret", made.secret);
    refresh();
  }

  const node = el("div", {}, pageHeader("Webhooks"), notice.node, list.node, empty, panel("New webhook", createForm(create)));
  return { title: "Webhooks", node };
}

/** How a webhook is named: the one without a URL is for the `webhook_url` of jobs. */
export function webhookName({ url }) {
  return url ?? "webhook_url of jobs";
}

/** The state as `badge` shows it. */
export function webhookState({ disabled_at }) {
  return disabled_at ? "disabled" : "enabled";
}

function createForm(create) {
  const notice = createNotice();
  const url = el("input", { type: "url", required: true, maxlength: 2000, placeholder: "https://example.com/beacon", autocomplete: "off" });
  const events = new Picker("Events", EVENTS, JOB_EVENTS, () => {});

  const submit = async (event) => {
    event.preventDefault();
    const [given, chosen] = [url.value.trim(), events.chosen()];
    setError(url, given ? null : "Enter a URL.");
    events.setError(chosen.length ? null : "Choose at least one event.");
    if (!given) return url.focus();
    if (!chosen.length) return events.focus();
    try {
      await create({ url: given, events: chosen });
      url.value = "";
      notice.show("");
    } catch (error) {
      notice.showError(error);
    }
    return undefined;
  };
  return el("form", { class: "fields", novalidate: true, onsubmit: submit },
    field("URL", url, { wide: true, hint: "Requests are signed with a secret that is shown once." }),
    el("div", { class: "wide" }, events.node), notice.node,
    el("div", { class: "actions" }, el("button", { class: "primary" }, "Create webhook")));
}

function webhookRow(webhook) {
  const link = el("a", { href: `#/webhooks/${webhook.id}` });
  const note = el("small", { class: "muted" });
  const events = el("td", {});
  const created = el("td", {}, formatAge(webhook.created_at));
  const state = badge(webhookState(webhook));
  const update = (next) => {
    setText(link, webhookName(next));
    setText(note, next.description);
    setText(events, next.events.join(", "));
    setText(created, formatAge(next.created_at));
    state.update(webhookState(next));
  };
  return { node: el("tr", {}, el("th", { scope: "row" }, link, note), events, created, el("td", {}, state.node)), update };
}
