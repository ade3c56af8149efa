// Dead letters: find them, put them back, or remove them for good.

import { pagesOf, path } from "../api.js";
import { ago, exact } from "../clock.js";
import { Rows, attr, button, el, table, write } from "../dom.js";
import { actionButton, attempt, confirmed, empty, notice } from "../parts.js";
import { poll } from "../stream.js";
import { count, titled } from "../words.js";

const EVERY_S = 5;
const PAGES_OF_A_SEARCH = 10;
const COLUMNS = [["Chosen", "hushed"], "Job", "Reason", ["Last error", "roomy"], ["Died", "number roomy"], ["Action", "hushed"]];

export function deadPart({ api, shell, signal }) {
  const said = notice();
  const done = notice();
  const search = el("input", { type: "search", placeholder: "Job, reason or error", autocomplete: "off" });
  const list = table("Dead letters", COLUMNS);
  const chosen = new Set();
  const rows = new Rows(list.body, (letter) => deadRow(letter, { choose, requeue: (id) => requeue([id]) }));
  const nothing = empty("No dead letters. ");
  const more = button("Show older", () => { pages += 1; refresh(); }, { class: "quiet", hidden: true });
  const requeueButton = actionButton("Requeue", () => requeue(picked()), {});
  const purgeButton = actionButton("Purge", () => purge(picked()), { class: "danger" });
  let letters = [];
  let total = 0;
  let pages = 1;

  const matching = () => letters.filter((letter) => words(letter).includes(search.value.trim().toLowerCase()));
  const ids = (some) => some.map((letter) => letter.job_id);
  /** Those that are ticked, or all that the search left; null is all there are, on pages not shown too. */
  const picked = () => (chosen.size ? [...chosen] : search.value.trim() ? ids(matching()) : null);

  function choose(id, on) {
    if (on) chosen.add(id);
    else chosen.delete(id);
    show();
  }

  function show() {
    const shown = matching();
    for (const id of chosen) if (!ids(shown).includes(id)) chosen.delete(id); // nobody acts on what they do not see
    rows.show(shown, (letter) => letter.job_id);
    attr(nothing, "hidden", shown.length > 0);
    attr(list.node, "hidden", shown.length === 0);
    for (const [node, verb] of [[requeueButton, "Requeue"], [purgeButton, "Purge"]]) {
      write(node, search.value.trim() || chosen.size ? `${verb} ${picked().length}` : `${verb} all`);
      attr(node, "disabled", shown.length === 0);
    }
  }

  const refresh = poll(EVERY_S, signal, async () => {
    const load = () => pagesOf(api, "admin/queue-dead", "dead_letters", { limit: 100, pages, signal });
    const { found, cursor, answer } = await attempt(said, load, "The dead letter queue");
    letters = found;
    total = answer.total;
    attr(more, "hidden", !cursor);
    show();
  });

  async function change(verb, ids, past) {
    try {
      const answer = await api.post(`admin/queue-dead/${verb}`, ids ? { job_ids: ids } : { all: true });
      const words = `${count(answer.count, "dead letter")} ${past}`;
      done.say(`${words}.`, "ok");
      shell.announce(words);
      chosen.clear();
    } catch (error) {
      done.fail(error);
    }
    refresh();
  }

  async function requeue(ids) {
    const sure = ids || await confirmed({
      title: "Requeue all dead letters?", action: `Requeue ${total}`, dangerous: false,
      text: `${count(total, "job")} go back to their queues with fresh attempts.`,
    });
    if (sure) await change("requeue", ids, "requeued");
  }

  async function purge(ids) {
    const number = ids?.length ?? total;
    const sure = await confirmed({
      title: `Purge ${count(number, "dead letter")}?`, action: `Purge ${number}`,
      text: "They cannot be requeued afterwards. The jobs themselves stay readable.",
    });
    if (sure) await change("purge", ids, "purged");
  }

  search.addEventListener("input", () => {
    if (pages < PAGES_OF_A_SEARCH) {
      pages = PAGES_OF_A_SEARCH;
      refresh();
    }
    show();
  });
  nothing.hidden = true;
  const filters = el("div", { class: "filters" },
    el("label", {}, el("span", {}, "Search"), search), el("div", { class: "actions" }, requeueButton, purgeButton));
  return el("div", {}, filters, said.node, done.node, nothing, list.node, el("div", { class: "actions" }, more));
}

function words({ job_id: id, name, reason, failure }) {
  return [id, name, reason, failure?.code, failure?.message].join(" ").toLowerCase();
}

function deadRow(letter, { choose, requeue }) {
  const id = letter.job_id;
  const box = el("input", { type: "checkbox", "aria-label": `Choose ${id}`, onchange: () => choose(id, box.checked) });
  const again = actionButton("Requeue", () => requeue(id), { class: "small", "aria-label": `Requeue ${id}` });
  const link = el("a", { href: `#/${path`jobs/${id}`}`, class: "strong" }, letter.name || titled(`${letter.kind} job`.trim()));
  const died = el("td", { class: "number roomy" });
  const node = el("tr", {},
    el("td", {}, box),
    el("th", { scope: "row" }, link, el("small", { class: "mono muted" }, id)),
    el("td", {}, titled(letter.reason)),
    el("td", { class: "roomy" }, letter.failure?.message ?? ""),
    died,
    el("td", { class: "number" }, again));
  const update = (next) => {
    write(died, ago(next.died_at));
    attr(died, "title", exact(next.died_at));
  };
  return { node, update };
}
