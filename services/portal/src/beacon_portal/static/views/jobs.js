// The user's jobs, newest first, live.

import { pagesOf, path, query } from "../api.js";
import { ago, exact, since, span } from "../clock.js";
import { Rows, attr, button, choice, el, table, write } from "../dom.js";
import { attempt, badge, empty, notice, pageHead, progressBar } from "../parts.js";
import { currentPlace } from "../router.js";
import { poll } from "../stream.js";
import { LIVE, titled } from "../words.js";

const STATES = ["queued", "processing", "retrying", "completed", "partial", "failed", "cancelled"];
const KINDS = ["matrix", "pipeline", "generation"];
const COLUMNS = [
  "Job", "State", ["Progress", "roomy"], ["Kind", "roomy"], ["Class", "roomy"], ["Created", "number"], ["Took", "number roomy"],
];
const PAGE = 50;

export function jobsView({ api, search, session, signal }) {
  const said = notice();
  const state = choice(optional("Any state", STATES), { name: "status", value: search.get("status") });
  const kind = choice(optional("Any kind", KINDS), { name: "kind", value: search.get("kind") });
  const everybody = el("input", { type: "checkbox", checked: session.isAdmin && search.has("everybody") });
  const more = button("Show older", () => { pages += 1; again(); }, { hidden: true, class: "quiet" });
  const list = table("Jobs", COLUMNS);
  const rows = new Rows(list.body, jobRow);
  const nothing = empty("No jobs here yet. ");
  nothing.append(el("a", { href: "#/submit" }, "Submit one"));
  nothing.hidden = true;
  let pages = 1;

  const wanted = () => ({ status: state.value, kind: kind.value, everybody: everybody.checked || null });

  async function refresh() {
    const load = () => pagesOf(api, "api/v1/jobs", "jobs", { ...wanted(), limit: PAGE, pages, signal });
    const { found, cursor } = await attempt(said, load, "The list of jobs");
    rows.show(found, (job) => job.job_id);
    attr(more, "hidden", !cursor);
    attr(nothing, "hidden", found.length > 0);
    attr(list.node, "hidden", found.length === 0);
  }

  function filter() {
    pages = 1;
    history.replaceState(null, "", `#${currentPlace().place}${query(wanted())}`);
    again();
  }

  state.addEventListener("change", filter);
  kind.addEventListener("change", filter);
  everybody.addEventListener("change", filter);
  const again = poll(2, signal, refresh);

  const filters = el("div", { class: "filters", role: "group", "aria-label": "Filters" },
    el("label", {}, el("span", {}, "State"), state), el("label", {}, el("span", {}, "Kind"), kind),
    session.isAdmin && el("label", { class: "check" }, everybody, "Everybody's"));
  const node = el("div", {},
    pageHead("Jobs", el("a", { class: "button primary", href: "#/submit" }, "Submit a job")),
    filters, said.node, nothing, list.node, el("div", { class: "actions" }, more));
  return { title: "Jobs", node };
}

function optional(all, names) {
  return [["", all], ...names.map((name) => [name, titled(name)])];
}

function jobRow(job) {
  const link = el("a", { href: `#/${path`jobs/${job.job_id}`}`, class: "strong" });
  const id = el("small", { class: "mono muted" }, job.job_id);
  const state = badge(job.status);
  const bar = progressBar();
  const percent = el("small", { class: "muted number" });
  const kind = el("td", { class: "roomy" });
  const priority = el("td", { class: "roomy" });
  const created = el("td", { class: "number" });
  const took = el("td", { class: "number roomy" });
  const node = el("tr", {},
    el("th", { scope: "row" }, link, id),
    el("td", {}, state.node),
    el("td", { class: "roomy" }, el("div", { class: "with-bar" }, bar.node, percent)),
    kind, priority, created, took);
  const update = (next) => {
    write(link, next.name || `${titled(next.kind)} job`);
    state.update(next.status);
    bar.update(next.progress);
    write(percent, `${next.progress.completed} / ${next.progress.total}`);
    write(kind, titled(next.kind));
    write(priority, titled(next.priority));
    write(created, ago(next.created_at));
    attr(created, "title", exact(next.created_at));
    write(took, next.started_at ? span(since(next.started_at, next.finished_at ?? undefined)) : "–");
    attr(node, "data-live", LIVE.has(next.status));
  };
  return { node, update };
}
