// One webhook: its deliveries, and what its user may do with it.

import { path, fetchPages } from "../api.js";
import { formatAge, formatDuration } from "../clock.js";
import { KeyedRows, button, el, setAttr, setText, table } from "../dom.js";
import { actionButton, badge, confirmAction, createNotice, facts, pageHeader, panel, reportErrors, showSecret } from "../components.js";
import { poll } from "../follow.js";
import { go } from "../router.js";
import { webhookName, webhookState } from "./webhooks.js";

const POLL_INTERVAL_S = 3;
const PAGE_SIZE = 50;
const FACTS = [["url", "URL"], ["events", "Events"], ["created", "Created"], ["reason", "Disabled"], ["rotation", "Old secret valid"]];

export function webhookView({ api, params, shell, signal }) {
  const address = path`api/v1/webhooks/${params.id}`;
  const notice = createNotice();
  const done = createNotice();
  const state = badge("enabled");
  const about = facts(FACTS);
  const list = table("Deliveries", ["Event", "State", ["Attempts", "number"], "Last attempt", ["Actions", "header-hidden"]]);
  const rows = new KeyedRows(list.body, (delivery) => deliveryRow(delivery, replay));
  const more = button("Show more", () => { pages += 1; refresh(); }, { class: "quiet", hidden: true });
  let pages = 1;
  let current = null;

  const refresh = poll(POLL_INTERVAL_S, signal, async () => {
    const load = () => Promise.all([
      api.get(address, { signal }),
      fetchPages(api, `${address}/deliveries`, "deliveries", { limit: PAGE_SIZE, pages, signal }),
    ]);
    const [webhook, { found, cursor }] = await reportErrors(notice, load, "This webhook");
    show(webhook);
    rows.show(found, (delivery) => delivery.id);
    setAttr(more, "hidden", !cursor);
  });

  function show(webhook) {
    current = webhook;
    state.update(webhookState(webhook));
    about.update({
      url: webhookName(webhook),
      events: webhook.events.join(", "),
      created: formatAge(webhook.created_at),
      reason: webhook.disabled_reason,
      rotation: webhook.previous_secret_until ? `until ${new Date(webhook.previous_secret_until).toLocaleString()}` : null,
    });
    setText(toggle, webhook.disabled_at ? "Enable" : "Disable");
    setAttr(test, "hidden", !webhook.url);
  }

  async function perform(work, message) {
    try {
      await work();
      done.show(message, "ok");
      shell.announce(message);
    } catch (error) {
      done.showError(error);
    }
    refresh();
  }

  const replay = (delivery) => perform(() => api.post(`${address}/deliveries/${encodeURIComponent(delivery.id)}/replay`), "The event is sent again.");
  const test = actionButton("Send a test", () => perform(() => api.post(`${address}/test`), "A test event is sent."));
  const rotate = actionButton("Rotate secret", () => perform(async () => {
    const made = await api.post(`${address}/rotate`);
    showSecret(`New secret of ${webhookName(made)}`, "Secret", made.secret);
  }, "For a day requests are signed with both secrets."));
  const toggle = actionButton("Disable", () => {
    const disabled = !current?.disabled_at;
    return perform(() => api.post(address, { disabled }), disabled ? "The webhook is disabled." : "The webhook is enabled.");
  }, { class: "quiet" });
  const remove = actionButton("Delete", async () => {
    const text = "Its deliveries are deleted too. Nothing more is sent.";
    if (!await confirmAction({ title: "Delete this webhook?", text, action: "Delete webhook" })) return;
    try {
      await api.delete(address);
      go("/webhooks");
    } catch (error) {
      done.showError(error);
    }
  }, { class: "danger" });

  const node = el("div", {},
    pageHeader("Webhook", state.node, el("div", { class: "actions" }, test, rotate, toggle, remove)),
    notice.node, done.node, about.node,
    panel("Deliveries", list.node, el("div", { class: "actions" }, more)));
  return { title: "Webhook", node };
}

function deliveryRow(delivery, replay) {
  const state = badge(delivery.state);
  const note = el("small", { class: "mono muted" });
  const attempts = el("td", { class: "number" });
  const last = el("td", {});
  const again = actionButton("Replay", () => replay(delivery), { class: "small", "aria-label": `Replay ${delivery.type} ${delivery.id}` });
  const node = el("tr", {}, el("th", { scope: "row" }, delivery.type, note), el("td", {}, state.node), attempts, last,
    el("td", { class: "number" }, again));
  const update = (next) => {
    state.update(next.state);
    setText(note, next.data.job_id ?? next.id);
    setText(attempts, next.attempts.length);
    setText(last, lastAttempt(next));
    setAttr(again, "hidden", next.state === "pending" && !next.attempts.length);
  };
  return { node, update };
}

function lastAttempt({ attempts }) {
  const attempt = attempts.at(-1);
  if (!attempt) return "–";
  return `${attempt.status ?? attempt.error}, ${formatDuration(attempt.duration_s)}, ${formatAge(attempt.at)}`;
}
