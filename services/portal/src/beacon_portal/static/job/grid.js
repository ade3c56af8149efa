// The live grid: one button per execution. Built once per page of questions; afterwards only changed cells are updated.

import { formatDuration, secondsSince } from "../clock.js";
import { button, el, setAttr, setText } from "../dom.js";
import { stateOf } from "../labels.js";
import { filesIn } from "../media/files.js";
import { isImage } from "../media/media.js";
import { modelSpans } from "./matrix-layout.js";

const PAGE_SIZE = 50;
const COMPARED = ["= same", "≠ differs"];

export class Grid {
  node = el("div");
  #layout;
  #state;
  #actions;
  #showsImages = false;
  #cells = new Map();
  #heads = new Map();
  #page = 0;
  #chosen;
  /** The questions that are shown. */
  rows;
  /** @type {{matching: Set<string> | null, different: Map<string, boolean>}} */
  #found = { matching: null, different: new Map() };

  /**
   * `choose(item)` is called when a question or one of its cells is selected; `viewer` makes thumbnails;
   * `fetchOutput(execution)` loads an output that the state lacks.
   */
  constructor(layout, state, actions) {
    this.#layout = layout;
    this.#state = state;
    this.#actions = actions;
    this.rows = layout.rows;
    this.#build();
  }

  /**
   * Show what was found: `matching`, the ids of the answers with a text, or null; of the compared ones `different`, by
   * id. Questions without a match are hidden.
   */
  show(found) {
    this.#found = found;
    const { rows } = this.#layout;
    const shown = found.matching ? rows.filter(({ cells }) => [...cells.values()].some((id) => found.matching.has(id))) : rows;
    const same = shown.length === this.rows.length && shown.every((row, index) => row === this.rows[index]);
    this.rows = shown;
    if (same) this.refresh();
    else this.#build();
  }

  refresh() {
    const { matching, different } = this.#found;
    for (const [id, cell] of this.#cells) {
      const execution = this.#state.executions.get(id);
      cell.update(execution, this.#state.shownState(execution));
      cell.mark({ faded: matching !== null && !matching.has(id), different: different.get(id) });
      const image = execution.withoutOutput ? null : filesIn(execution.output).find(isImage);
      if (image) cell.showImage(image);
      this.#showsImages ||= Boolean(image);
      if (this.#showsImages && execution.withoutOutput) cell.needOutput(execution);
    }
  }

  choose(item) {
    this.#chosen = item;
    const page = Math.floor(this.rows.findIndex((row) => row.item === item) / PAGE_SIZE);
    if (page >= 0 && page !== this.#page) {
      this.#page = page;
      this.#build();
    }
    for (const [name, head] of this.#heads) setAttr(head, "aria-pressed", String(name === item));
  }

  #build() {
    this.#cells.clear();
    this.#heads.clear();
    const { columns } = this.#layout;
    const rows = this.rows;
    this.#page = Math.min(this.#page, Math.max(0, Math.ceil(rows.length / PAGE_SIZE) - 1));
    const shown = rows.slice(this.#page * PAGE_SIZE, (this.#page + 1) * PAGE_SIZE);
    const body = el("tbody", {}, shown.map((row) => this.#row(row, columns)));
    const caption = el("caption", { class: "visually-hidden" }, "Questions by models and regions");
    const grid = el("table", { class: "grid" }, caption, head(columns), body);
    const scroller = el("div", { class: "scroller", tabindex: "0", role: "group", "aria-label": "Grid of executions" }, grid);
    this.node.replaceChildren(...[scroller, rows.length > PAGE_SIZE && this.#pager(rows.length)].filter(Boolean));
    this.refresh();
  }

  #row(row, columns) {
    const pressed = String(row.item === this.#chosen);
    const name = button(row.item, () => this.#actions.choose(row.item), { class: "question", "aria-pressed": pressed });
    this.#heads.set(row.item, name);
    return el("tr", {}, el("th", { scope: "row" }, name), columns.map((column) => {
      const id = row.cells.get(column.key);
      if (!id) return el("td", {}, el("span", { class: "visually-hidden" }, "Not part of this job"));
      const cell = gridCell(() => this.#actions.choose(row.item, id), this.#actions);
      this.#cells.set(id, cell);
      return el("td", {}, cell.node);
    }));
  }

  #pager(total) {
    const last = Math.ceil(total / PAGE_SIZE) - 1;
    const turn = (by) => { this.#page = Math.min(last, Math.max(0, this.#page + by)); this.#build(); };
    const first = this.#page * PAGE_SIZE + 1;
    return el("div", { class: "actions pager" },
      button("Previous", () => turn(-1), { class: "small", disabled: this.#page === 0 }),
      el("span", { class: "muted" }, `${first}–${Math.min(total, first + PAGE_SIZE - 1)} of ${total} questions`),
      button("Next", () => turn(1), { class: "small", disabled: this.#page === last }));
  }
}

function head(columns) {
  return el("thead", {},
    el("tr", {}, el("th", { scope: "col", rowspan: 2 }, "Question"),
      modelSpans(columns).map(({ model, width }) => el("th", { scope: "colgroup", colspan: width }, model))),
    el("tr", {}, columns.map(({ region }) => el("th", { scope: "col" }, region))));
}

function gridCell(onclick, { viewer, fetchOutput }) {
  const glyph = el("span", { "aria-hidden": "true" });
  const label = el("span", { class: "visually-hidden" });
  const time = el("span", { class: "cell-text" });
  const compared = el("span", { class: "compared", hidden: true });
  const node = el("button", { type: "button", class: "cell", onclick }, glyph, label, time, compared);
  const mark = ({ faded, different }) => {
    setAttr(node, "data-faded", faded);
    setAttr(compared, "hidden", different === undefined);
    setText(compared, different === undefined ? "" : COMPARED[Number(different)]);
  };
  const update = (execution, shown) => {
    const { tone, glyph: symbol, label: text } = stateOf(shown);
    setAttr(node, "data-tone", tone);
    setText(glyph, symbol);
    setText(label, text);
    setText(time, cellText(execution));
    setAttr(node, "title", [execution.item, execution.model, execution.region].join(" · "));
  };
  let shown;
  let thumbnail;
  const showImage = (reference) => {
    if (shown === reference.file) return;
    shown = reference.file;
    thumbnail?.remove();
    thumbnail = viewer.thumbnail(reference);
    node.prepend(thumbnail);
  };
  let needed;
  const needOutput = (execution) => {
    if (needed === execution.attempt) return;
    needed = execution.attempt;
    viewer.whenVisible(node, () => fetchOutput(execution));
  };
  return { node, update, mark, showImage, needOutput };
}

function cellText({ state, region, actual_region: actual, started_at: started, finished_at: finished, failure, progress }) {
  if (state === "failed") return failure?.code ?? "";
  const percent = state === "running" && Number.isFinite(progress?.percent) ? `${Math.round(progress.percent)} %` : "";
  const moved = actual && actual !== region ? `→${actual}` : "";
  const took = state === "completed" && started && finished ? formatDuration(secondsSince(started, finished)) : "";
  return [percent, took, moved].filter(Boolean).join(" ");
}
