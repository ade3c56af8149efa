// The audit log: who changed what.

import { fetchPages } from "../api.js";
import { formatDateTime } from "../clock.js";
import { KeyedRows, button, el, setAttr, table } from "../dom.js";
import { createNotice, emptyNote, reportErrors } from "../components.js";
import { poll } from "../follow.js";
import { sentenceCase } from "../labels.js";

const POLL_INTERVAL_S = 10;
const PAGE_SIZE = 100;

export function auditPart({ api, signal }) {
  const notice = createNotice();
  const target = el("input", { type: "search", maxlength: 100, autocomplete: "off" });
  const list = table("Audit log", ["Time", "Actor", "Action", "Target", "Details"]);
  const rows = new KeyedRows(list.body, entryRow);
  const empty = emptyNote("No entries.");
  const more = button("Show more", () => { pages += 1; refresh(); }, { class: "quiet", hidden: true });
  setAttr(empty, "hidden", true);
  let pages = 1;

  const refresh = poll(POLL_INTERVAL_S, signal, async () => {
    const wanted = { target: target.value.trim(), limit: PAGE_SIZE, pages, signal };
    const { found, cursor } = await reportErrors(notice, () => fetchPages(api, "admin/audit", "entries", wanted), "The audit log");
    rows.show(found, (entry) => entry.id);
    setAttr(empty, "hidden", Boolean(found.length));
    setAttr(more, "hidden", !cursor);
  });
  target.addEventListener("change", () => { pages = 1; refresh(); });

  return el("div", {}, notice.node,
    el("div", { class: "filters" }, el("label", {}, "Target (an id or a name)", target)),
    list.node, empty, el("div", { class: "actions" }, more));
}

/** Entries never change. */
function entryRow({ at, actor, action, target, details }) {
  const node = el("tr", {},
    el("th", { scope: "row" }, formatDateTime(at)),
    el("td", {}, actor.name, actor.key && el("small", { class: "mono muted" }, ` ${actor.key}…`)),
    el("td", {}, sentenceCase(action.replace(".", " "))),
    el("td", { class: "mono" }, target),
    el("td", {}, el("small", {}, Object.entries(details).map(([name, value]) => `${name}: ${shown(value)}`).join(" · "))));
  return { node, update() {} };
}

function shown(value) {
  if (Array.isArray(value)) return value.map(shown).join(", ");
  if (value === null || typeof value !== "object") return String(value);
  return Object.entries(value).map(([name, one]) => `${name} ${shown(one)}`).join(", ");
}
