// Backends of the live configuration: add, drain, resume, remove.

import { path } from "../api.js";
import { formatAge } from "../clock.js";
import { KeyedRows, el, setAttr, setText, table } from "../dom.js";
import { actionButton, badge, confirmAction, createNotice, panel, reportErrors } from "../components.js";
import { poll } from "../follow.js";
import { count } from "../labels.js";
import { backendForm } from "./backend-form.js";

const POLL_INTERVAL_S = 2;
const COLUMNS = ["Backend", ["Models", "wide-only"], ["Busy", "number"], "State", ["Actions", "header-hidden"]];

export function backendsPart({ api, signal }) {
  const notice = createNotice();
  const done = createNotice();
  const list = table("Backends", COLUMNS);
  const rows = new KeyedRows(list.body, (backend) => backendRow(backend, { drain, resume, remove }));
  const revision = el("p", { class: "muted" });
  const routers = el("ul", { class: "reasons" });
  const routerRows = new KeyedRows(routers, routerRow);
  const form = backendForm(add);

  const refresh = poll(POLL_INTERVAL_S, signal, async () => {
    const [{ backends }, configuration] = await reportErrors(notice, () => Promise.all([
      api.get("admin/backends", { signal }), api.get("admin/config", { signal }),
    ]), "The configuration");
    rows.show(backends, (backend) => backend.name);
    form.setKnown(backends);
    const { revision: newest, created_at: made, actor, comment } = configuration;
    setText(revision, `Revision ${newest}, made by ${actor.name} ${formatAge(made)}${comment ? `: ${comment}` : ""}`);
    routerRows.show(configuration.routers.map((router) => ({ ...router, newest })), (router) => router.url);
  });

  /** The change that `work` describes or makes; null after an error. `onFields` shows errors of fields. */
  async function attempt(work, onFields = (_errors) => false) {
    try {
      const made = await work();
      done.show("");
      return made;
    } catch (error) {
      if (onFields(error.errors ?? [])) done.show("");
      else done.showError(error);
      return null;
    }
  }

  async function change(work, message, onFields) {
    const made = await attempt(work, onFields);
    refresh();
    if (!made) return false;
    done.show(made.applied ? `${message} (revision ${made.revision}).` : "Nothing changes.", "ok");
    return true;
  }

  async function drain({ name }) {
    const text = "Running requests end there, and none is started. What only this backend can run waits until it is resumed.";
    if (!(await confirmAction({ title: `Drain ${name}?`, text, action: "Drain", dangerous: false }))) return;
    await change(() => api.post(path`admin/backends/${name}/drain`), `${name} starts nothing until it is resumed`);
  }

  async function resume({ name }) {
    const text = "The routers start requests there within seconds.";
    if (!(await confirmAction({ title: `Resume ${name}?`, text, action: "Resume", dangerous: false }))) return;
    await change(() => api.post(path`admin/backends/${name}/resume`), `${name} is resumed`);
  }

  async function remove({ name }) {
    const address = path`admin/backends/${name}`;
    const planned = await attempt(() => api.delete(`${address}?dry_run=true`));
    if (!planned) return;
    const stranded = planned.stranded.map(strandedText);
    const confirmed = await confirmAction({
      title: `Remove ${name}?`, action: stranded.length ? "Remove, and let the work fail" : "Remove",
      text: "Running requests end there. Waiting ones run elsewhere, where another backend can run them.",
      details: [...alsoChanged(planned, `backends.${name}`), ...stranded],
    });
    const force = stranded.length ? "?force=true" : "";
    if (confirmed) await change(() => api.delete(address + force), `${name} is removed`);
  }

  async function add(backend, onFields) {
    const planned = await attempt(() => api.post("admin/backends?dry_run=true", backend), onFields);
    if (!planned) return false;
    const confirmed = await confirmAction({
      title: `Add ${backend.name}?`, action: "Add", dangerous: false,
      text: `The routers send requests to ${backend.url} within seconds.`,
      details: alsoChanged(planned, `backends.${backend.name}`),
    });
    return confirmed && change(() => api.post("admin/backends", backend), `${backend.name} is added`, onFields);
  }

  return el("div", {}, notice.node, done.node, list.node, panel("Configuration", revision, routers), panel("New backend", form.node));
}

/** What else a change adds or removes: models and regions. */
function alsoChanged({ differences }, key) {
  return differences.filter((one) => one.key !== key && !one.key.startsWith(`${key}.`))
    .map((one) => `${one.before === null || one.before === undefined ? "Added" : "Removed"}: ${one.key}`);
}

function strandedText({ model, region, executions, job_class: jobClass, jobs }) {
  if (jobClass) return `${count(jobs, "unfinished job")} of class ${jobClass} would wait without a pool`;
  return `${count(executions, "unfinished execution")} of ${model} in ${region} would fail`;
}

function backendRow(backend, { drain, resume, remove }) {
  let current = backend;
  const place = el("small", { class: "muted" });
  const models = el("td", { class: "wide-only" });
  const busy = el("td", { class: "number" });
  const state = badge(backend.state);
  const cause = el("small", { class: "muted" });
  const toggle = actionButton("", () => (current.drain ? resume(current) : drain(current)), { class: "small" });
  const removal = actionButton("Remove", () => remove(current), { class: "small danger", "aria-label": `Remove ${backend.name}` });
  const node = el("tr", {},
    el("th", { scope: "row" }, el("span", { class: "strong" }, backend.name), place),
    models, busy, el("td", {}, state.node, " ", cause),
    el("td", { class: "number" }, el("span", { class: "actions end-inline" }, toggle, removal)));
  const update = (next) => {
    current = next;
    const address = next.simulated ? "simulated" : next.url;
    setText(place, [next.region, next.dialect, next.group, address].filter(Boolean).join(" · "));
    setText(models, next.models.join(", "));
    setText(busy, `${next.busy} of ${next.slots}`);
    state.update(next.state);
    setText(cause, next.cause);
    setText(toggle, next.drain ? "Resume" : "Drain");
    setAttr(toggle, "aria-label", `${next.drain ? "Resume" : "Drain"} ${next.name}`);
  };
  return { node, update };
}

function routerRow(router) {
  const node = el("li");
  const update = ({ url, revision, refused, errors, newest }) => setText(node, `${url} ${routerText({ revision, refused, errors, newest })}`);
  update(router);
  return { node, update };
}

function routerText({ revision, refused, errors, newest }) {
  const running = revision ? `runs on revision ${revision}` : "runs on its file";
  if (refused === newest) return `cannot apply revision ${newest} and ${running}: ${errors.join("; ")}`;
  if (!revision && errors.length) return `does not answer: ${errors.join("; ")}`;
  return running;
}
