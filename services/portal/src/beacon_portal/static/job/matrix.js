// A matrix: the live grid, the answers to one question, search in all answers, comparison of two models or regions.

import { query, path } from "../api.js";
import { el, field, setText } from "../dom.js";
import { panel } from "../components.js";
import { LIVE_STATES, count } from "../labels.js";
import { Answers, questionHead } from "./answers.js";
import { Comparison } from "./comparison.js";
import { Grid } from "./grid.js";
import { matrixLayout } from "./matrix-layout.js";
import { textOf } from "./text.js";

const PAGE_SIZE = 200;
const EVALUATE_EVERY_MS = { live: 5_000, ended: 500 }; // all answers are loaded for it

export function matrixBody(state, actions, { api, signal, notice }) {
  const layout = matrixLayout(state.view.executions);
  const rows = new Map(layout.rows.map((row) => [row.item, row]));
  const prompts = new Map((state.view.spec?.questions ?? []).map(({ id, prompt }) => [id, prompt]));
  const grid = new Grid(layout, state, { choose, ...actions });
  const answers = new Answers(state, actions);
  const heading = questionHead(layout.rows, choose);
  const comparison = new Comparison(layout, evaluate);
  const wanted = el("input", { type: "search", maxlength: 200, autocomplete: "off", onchange: evaluate });
  const found = el("p", { class: "muted", role: "status" });
  let timer = 0;
  let chosen;

  function choose(item, id) {
    chosen = item;
    grid.choose(item);
    heading.update(item, prompts.get(item));
    show();
    answers.focus(id);
  }

  function show() {
    const row = rows.get(chosen);
    if (!row) return;
    const pairs = comparison.pairsOf(row).flatMap(([left, right]) => [{ id: left, other: right }, { id: right, other: left }]);
    const all = layout.columns.map(({ key }) => ({ id: row.cells.get(key) })).filter(({ id }) => id);
    answers.show(() => (comparison.active ? pairs : all), { wanted: wanted.value.trim(), inPairs: comparison.active });
  }

  /** Search and compare: with all answers, also those that the page has not needed yet. */
  async function evaluate() {
    clearTimeout(timer);
    timer = 0;
    const text = wanted.value.trim().toLowerCase();
    try {
      if (text || comparison.active) await loadOutputs(api, state, signal);
    } catch (error) {
      notice.showError(error);
      return;
    }
    const matching = text ? matches(text) : null;
    grid.show({ matching, different: comparison.evaluate(state.executions) });
    const shown = grid.rows;
    const questions = `${shown.length.toLocaleString()} of ${count(layout.rows.length, "question")}`;
    setText(found, matching ? `${count(matching.size, "answer")} to ${questions}` : "");
    if (shown.length && !shown.some(({ item }) => item === chosen)) choose(shown[0].item);
    else show();
  }

  function matches(text) {
    const executions = [...state.executions.values()];
    return new Set(executions.filter((one) => textOf(one)?.toLowerCase().includes(text)).map(({ id }) => id));
  }

  function update() {
    grid.refresh();
    answers.refresh();
    if (timer || !(wanted.value.trim() || comparison.active)) return;
    timer = setTimeout(evaluate, EVALUATE_EVERY_MS[LIVE_STATES.has(state.view.status) ? "live" : "ended"]);
  }

  signal.addEventListener("abort", () => clearTimeout(timer));
  if (layout.rows.length) choose(layout.rows[0].item);
  const search = el("div", { class: "filters", role: "search" }, field("Search in answers", wanted), found);
  const side = el("section", { class: "panel", "aria-label": "Answers" }, heading.node, answers.node);
  return { nodes: [panel("Questions × models × regions", search, comparison.node, grid.node), side], update };
}

/** Load the outputs that the state lacks, page by page. */
async function loadOutputs(api, state, signal) {
  const lacking = () => [...state.executions.values()].some(({ withoutOutput }) => withoutOutput);
  let cursor;
  while (lacking()) {
    const page = await api.get(path`api/v1/jobs/${state.view.job_id}/executions` + query({ limit: PAGE_SIZE, cursor }), { signal });
    for (const execution of page.executions) if (state.executions.get(execution.id)?.withoutOutput) state.put(execution);
    cursor = page.next_cursor;
    if (!cursor) return;
  }
}
