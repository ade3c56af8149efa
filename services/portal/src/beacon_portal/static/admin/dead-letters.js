// Dead letters: search, requeue, purge.

import { fetchPages, path } from "../api.js";
import { formatAge, formatDateTime } from "../clock.js";
import { KeyedRows, button, el, setAttr, setText, table } from "../dom.js";
import { actionButton, confirmAction, createNotice, emptyNote, reportErrors } from "../components.js";
import { poll } from "../follow.js";
import { count, sentenceCase } from "../labels.js";

const POLL_INTERVAL_S = 5;
const MAX_SEARCH_PAGES = 10;
const COLUMNS = [["Select", "header-hidden"], "Job", "Reason", ["Last error", "wide-only"], ["Failed at", "number wide-only"], ["Action", "header-hidden"]];

export function deadLettersPart({ api, shell, signal }) {
  const notice = createNotice();
  const done = createNotice();
  const search = el("input", { type: "search", placeholder: "Job, reason or error", autocomplete: "off" });
  const list = table("Dead letters", COLUMNS);
  const chosen = new Set();
  const rows = new KeyedRows(list.body, (letter) => deadLetterRow(letter, { choose, requeue: (id) => requeue([id]) }));
  const nothing = emptyNote("No dead letters.");
  const more = button("Show older", () => { pages += 1; refresh(); }, { class: "quiet", hidden: true });
  const requeueButton = actionButton("Requeue", () => requeue(picked()), {});
  const purgeButton = actionButton("Purge", () => purge(picked()), { class: "danger" });
  let letters = [];
  let total = 0;
  let pages = 1;

  const matching = () => letters.filter((letter) => searchText(letter).includes(search.value.trim().toLowerCase()));
  const ids = (some) => some.map((letter) => letter.job_id);
  /** The selected ids, else the ids that match the search; null means all, including pages that are not shown. */
  const picked = () => (chosen.size ? [...chosen] : search.value.trim() ? ids(matching()) : null);

  function choose(id, on) {
    if (on) chosen.add(id);
    else chosen.delete(id);
    show();
  }

  function show() {
    const shown = matching();
    for (const id of chosen) if (!ids(shown).includes(id)) chosen.delete(id); // hidden rows are not acted on
    rows.show(shown, (letter) => letter.job_id);
    setAttr(nothing, "hidden", shown.length > 0);
    setAttr(list.node, "hidden", shown.length === 0);
    for (const [node, verb] of [[requeueButton, "Requeue"], [purgeButton, "Purge"]]) {
      setText(node, search.value.trim() || chosen.size ? `${verb} ${picked().length}` : `${verb} all`);
      setAttr(node, "disabled", shown.length === 0);
    }
  }

  const refresh = poll(POLL_INTERVAL_S, signal, async () => {
    const load = () => fetchPages(api, "admin/queue-dead", "dead_letters", { limit: 100, pages, signal });
    const { found, cursor, answer } = await reportErrors(notice, load, "The dead letter queue");
    letters = found;
    total = answer.total;
    setAttr(more, "hidden", !cursor);
    show();
  });

  async function change(verb, ids, past) {
    try {
      const answer = await api.post(`admin/queue-dead/${verb}`, ids ? { job_ids: ids } : { all: true });
      const message = `${count(answer.count, "dead letter")} ${past}`;
      done.show(`${message}.`, "ok");
      shell.announce(message);
      chosen.clear();
    } catch (error) {
      done.showError(error);
    }
    refresh();
  }

  async function requeue(ids) {
    const sure = ids || await confirmAction({
      title: "Requeue all dead letters?", action: `Requeue ${total}`, dangerous: false,
      text: `${count(total, "job")} return to their queues with new attempts.`,
    });
    if (sure) await change("requeue", ids, "requeued");
  }

  async function purge(ids) {
    const number = ids?.length ?? total;
    const sure = await confirmAction({
      title: `Purge ${count(number, "dead letter")}?`, action: `Purge ${number}`,
      text: "They cannot be requeued afterwards. The jobs themselves stay readable.",
    });
    if (sure) await change("purge", ids, "purged");
  }

  search.addEventListener("input", () => {
    if (pages < MAX_SEARCH_PAGES) {
      pages = MAX_SEARCH_PAGES;
      refresh();
    }
    show();
  });
  nothing.hidden = true;
  const filters = el("div", { class: "filters" },
    el("label", {}, el("span", {}, "Search"), search), el("div", { class: "actions" }, requeueButton, purgeButton));
  return el("div", {}, filters, notice.node, done.node, nothing, list.node, el("div", { class: "actions" }, more));
}

function searchText({ job_id: id, name, reason, failure }) {
  return [id, name, reason, failure?.code, failure?.message].join(" ").toLowerCase();
}

function deadLetterRow(letter, { choose, requeue }) {
  const id = letter.job_id;
  const box = el("input", { type: "checkbox", "aria-label": `Select ${id}`, onchange: () => choose(id, box.checked) });
  const again = actionButton("Requeue", () => requeue(id), { class: "small", "aria-label": `Requeue ${id}` });
  const link = el("a", { href: `#/${path`jobs/${id}`}`, class: "strong" }, letter.name || sentenceCase(`${letter.kind} job`.trim()));
  const died = el("td", { class: "number wide-only" });
  const node = el("tr", {},
    el("td", {}, box),
    el("th", { scope: "row" }, link, el("small", { class: "mono muted" }, id)),
    el("td", {}, sentenceCase(letter.reason)),
    el("td", { class: "wide-only" }, letter.failure?.message ?? ""),
    died,
    el("td", { class: "number" }, again));
  const update = (next) => {
    setText(died, formatAge(next.died_at));
    setAttr(died, "title", formatDateTime(next.died_at));
  };
  return { node, update };
}
