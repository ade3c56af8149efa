// The user's jobs, newest first, updated by polling.

import { fetchPages, path, query } from "../api.js";
import { formatAge, formatDateTime, formatDuration, secondsSince } from "../clock.js";
import { KeyedRows, button, el, select, setAttr, setText, table } from "../dom.js";
import { badge, createNotice, pageHeader, progressBar, reportErrors } from "../components.js";
import { currentRoute } from "../router.js";
import { bulkActions } from "./bulk.js";
import { poll } from "../follow.js";
import { LIVE_STATES, sentenceCase } from "../labels.js";

const STATES = ["scheduled", "queued", "processing", "retrying", "completed", "partial", "failed", "cancelled", "expired"];
const KINDS = ["matrix", "pipeline", "generation"];
const COLUMNS = [
  "Job", "State", ["Progress", "wide-only"], ["Kind", "wide-only"], ["Class", "wide-only"], ["Created", "number"], ["Took", "number wide-only"],
];
const PAGE_SIZE = 50;

export function jobsView({ api, search, session, signal }) {
  const notice = createNotice();
  const result = createNotice();
  const state = select(optional("Any state", STATES), { name: "status", value: search.get("status") });
  const kind = select(optional("Any kind", KINDS), { name: "kind", value: search.get("kind") });
  const model = el("input", { name: "model", type: "search", value: search.get("model") ?? "", maxlength: 64 });
  const tag = el("input", { name: "tag", type: "search", value: search.get("tag") ?? "", maxlength: 64 });
  const metadata = el("input", { name: "metadata", type: "search", value: search.get("metadata") ?? "", maxlength: 580, placeholder: "key=value", pattern: ".+=.*" });
  const since = el("input", { name: "created_after", type: "datetime-local", value: localTime(search.get("created_after")) });
  const until = el("input", { name: "created_before", type: "datetime-local", value: localTime(search.get("created_before")) });
  const name = el("input", { name: "name", type: "search", value: search.get("name") ?? "", maxlength: 200 });
  const allUsers = el("input", { type: "checkbox", checked: session.isAdmin && search.has("all_users") });
  const more = button("Show older", () => { pages += 1; refreshNow(); }, { hidden: true, class: "quiet" });
  const list = table("Jobs", COLUMNS);
  const rows = new KeyedRows(list.body, (job) => jobRow(job, session.isAdmin));
  const nothing = el("p", { class: "empty", hidden: true });
  let pages = 1;

  const user = session.isAdmin ? search.get("user") : null;
  const filters = () => ({
    status: state.value, kind: kind.value, model: model.value.trim(), tag: tag.value.trim(), name: name.value.trim(),
    metadata: metadata.validity.valid ? metadata.value.trim() : "", created_after: moment(since), created_before: moment(until), all_users: allUsers.checked || null, user,
  });
  const bulk = bulkActions({ api, signal }, { filter: () => bulkFilter(filters()), notice: result, changed: () => refreshNow() });

  async function refresh() {
    const load = () => fetchPages(api, "api/v1/jobs", "jobs", { ...filters(), limit: PAGE_SIZE, pages, signal });
    const { found, cursor } = await reportErrors(notice, load, "The list of jobs");
    rows.show(found, (job) => job.job_id);
    setAttr(more, "hidden", !cursor);
    setAttr(nothing, "hidden", found.length > 0);
    if (!found.length) nothing.replaceChildren(...noJobs(cursor, bulkFilter(filters())));
    setAttr(list.node, "hidden", found.length === 0);
  }

  function filter() {
    pages = 1;
    result.show("");
    bulk.update();
    history.replaceState(null, "", `#${currentRoute().path}${query(filters())}`);
    refreshNow();
  }

  for (const control of [state, kind, model, tag, name, metadata, since, until, allUsers]) control.addEventListener("change", filter);
  const refreshNow = poll(2, signal, refresh);
  bulk.update();

  const filterBar = el("div", { class: "filters", role: "group", "aria-label": "Filters" },
    el("label", {}, el("span", {}, "State"), state), el("label", {}, el("span", {}, "Kind"), kind),
    el("label", {}, el("span", {}, "Model"), model), el("label", {}, el("span", {}, "Tag"), tag),
    el("label", {}, el("span", {}, "Name begins with"), name), el("label", {}, el("span", {}, "Metadata"), metadata),
    el("label", {}, el("span", {}, "From"), since), el("label", {}, el("span", {}, "Until"), until),
    session.isAdmin && el("label", { class: "check" }, allUsers, "All users"), bulk.node);
  const node = el("div", {},
    pageHeader("Jobs", el("a", { class: "button primary", href: "#/submit" }, "Submit a job")),
    user && el("p", { class: "mono muted" }, `Jobs of ${user}`), filterBar, notice.node, result.node, nothing, list.node, el("div", { class: "actions" }, more));
  return { title: "Jobs", node };
}

function noJobs(cursor, filtered) {
  if (cursor) return ["None of the newest jobs matches."];
  return filtered ? ["No job matches."] : ["No jobs yet. ", el("a", { href: "#/submit" }, "Submit one")];
}

/** The filters as an operation takes them; null if every job would match. */
export function bulkFilter({ status, tag, metadata, all_users: allUsers, ...others }) {
  const [key, ...rest] = (metadata ?? "").split("=");
  const given = { status: status && [status], tag: tag && [tag], metadata: key && { [key]: rest.join("=") }, ...others };
  const conditions = Object.entries(given).filter(([, value]) => value);
  if (!conditions.length) return null;
  return { ...Object.fromEntries(conditions), ...(allUsers ? { all_users: true } : {}) };
}

/** The value of a control for a time, in UTC; null if it is empty. */
function moment({ value }) {
  return value ? new Date(value).toISOString() : null;
}

/** A time as a control takes it: by the user's clock. */
function localTime(text) {
  const at = new Date(text ?? "");
  return Number.isNaN(at.getTime()) ? "" : new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

function optional(all, names) {
  return [["", all], ...names.map((name) => [name, sentenceCase(name)])];
}

function jobRow(job, showOwner) {
  const link = el("a", { href: `#/${path`jobs/${job.job_id}`}`, class: "strong" });
  const id = el("small", { class: "mono muted" }, job.job_id);
  const owner = el("small", { class: "mono muted" }, showOwner ? job.user_id : "");
  const state = badge(job.status);
  const bar = progressBar();
  const percent = el("small", { class: "muted number" });
  const kind = el("td", { class: "wide-only" });
  const priority = el("td", { class: "wide-only" });
  const created = el("td", { class: "number" });
  const took = el("td", { class: "number wide-only" });
  const node = el("tr", {},
    el("th", { scope: "row" }, link, id, showOwner && owner),
    el("td", {}, state.node),
    el("td", { class: "wide-only" }, el("div", { class: "with-bar" }, bar.node, percent)),
    kind, priority, created, took);
  const update = (next) => {
    setText(link, next.name || `${sentenceCase(next.kind)} job`);
    state.update(next.status);
    bar.update(next.progress);
    setText(percent, `${next.progress.completed} / ${next.progress.total}`);
    setText(kind, sentenceCase(next.kind));
    setText(priority, sentenceCase(next.priority));
    setText(created, formatAge(next.created_at));
    setAttr(created, "title", formatDateTime(next.created_at));
    setText(took, next.started_at ? formatDuration(secondsSince(next.started_at, next.finished_at ?? undefined)) : "–");
    setAttr(node, "data-live", LIVE_STATES.has(next.status));
  };
  return { node, update };
}
