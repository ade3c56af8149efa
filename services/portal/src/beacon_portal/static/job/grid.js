// The live grid: one button per execution. Built once per page of questions; afterwards only changed cells are written.

import { since, span } from "../clock.js";
import { attr, button, el, write } from "../dom.js";
import { stateOf } from "../words.js";
import { modelSpans } from "./plan.js";

const PAGE = 50;

export class Grid {
  node = el("div");
  #plan;
  #state;
  #choose;
  #cells = new Map();
  #heads = new Map();
  #page = 0;
  #chosen;

  /** `choose(item)` is called when a question or one of its cells is picked. */
  constructor(plan, state, choose) {
    this.#plan = plan;
    this.#state = state;
    this.#choose = choose;
    this.#build();
  }

  refresh() {
    for (const [id, cell] of this.#cells) {
      const execution = this.#state.executions.get(id);
      cell.update(execution, this.#state.shownState(execution));
    }
  }

  choose(item) {
    this.#chosen = item;
    const page = Math.floor(this.#plan.rows.findIndex((row) => row.item === item) / PAGE);
    if (page >= 0 && page !== this.#page) {
      this.#page = page;
      this.#build();
    }
    for (const [name, head] of this.#heads) attr(head, "aria-pressed", String(name === item));
  }

  #build() {
    this.#cells.clear();
    this.#heads.clear();
    const { rows, columns } = this.#plan;
    const shown = rows.slice(this.#page * PAGE, (this.#page + 1) * PAGE);
    const body = el("tbody", {}, shown.map((row) => this.#row(row, columns)));
    const caption = el("caption", { class: "unseen" }, "Questions by models and regions");
    const grid = el("table", { class: "grid" }, caption, head(columns), body);
    const scroller = el("div", { class: "scroller", tabindex: "0", role: "group", "aria-label": "Grid of executions" }, grid);
    this.node.replaceChildren(...[scroller, rows.length > PAGE && this.#pager(rows.length)].filter(Boolean));
    this.refresh();
  }

  #row(row, columns) {
    const pressed = String(row.item === this.#chosen);
    const name = button(row.item, () => this.#choose(row.item), { class: "question", "aria-pressed": pressed });
    this.#heads.set(row.item, name);
    return el("tr", {}, el("th", { scope: "row" }, name), columns.map((column) => {
      const id = row.cells.get(column.key);
      if (!id) return el("td", {}, el("span", { class: "unseen" }, "Not asked"));
      const cell = gridCell(() => this.#choose(row.item, id));
      this.#cells.set(id, cell);
      return el("td", {}, cell.node);
    }));
  }

  #pager(total) {
    const last = Math.ceil(total / PAGE) - 1;
    const turn = (by) => { this.#page = Math.min(last, Math.max(0, this.#page + by)); this.#build(); };
    const first = this.#page * PAGE + 1;
    return el("div", { class: "actions pager" },
      button("Previous", () => turn(-1), { class: "small", disabled: this.#page === 0 }),
      el("span", { class: "muted" }, `${first}–${Math.min(total, first + PAGE - 1)} of ${total} questions`),
      button("Next", () => turn(1), { class: "small", disabled: this.#page === last }));
  }
}

function head(columns) {
  return el("thead", {},
    el("tr", {}, el("th", { scope: "col", rowspan: 2 }, "Question"),
      modelSpans(columns).map(({ model, width }) => el("th", { scope: "colgroup", colspan: width }, model))),
    el("tr", {}, columns.map(({ region }) => el("th", { scope: "col" }, region))));
}

function gridCell(onclick) {
  const glyph = el("span", { "aria-hidden": "true" });
  const label = el("span", { class: "unseen" });
  const time = el("span", {});
  const node = el("button", { type: "button", class: "cell", onclick }, glyph, label, time);
  const update = (execution, shown) => {
    const { tone, glyph: sign, label: words } = stateOf(shown);
    attr(node, "data-tone", tone);
    write(glyph, sign);
    write(label, words);
    write(time, cellText(execution));
    attr(node, "title", [execution.item, execution.model, execution.region].join(" · "));
  };
  return { node, update };
}

function cellText({ state, region, actual_region: actual, started_at: started, finished_at: finished, failure }) {
  if (state === "failed") return failure?.code ?? "";
  const moved = actual && actual !== region ? `→${actual}` : "";
  const took = state === "completed" && started && finished ? span(since(started, finished)) : "";
  return [took, moved].filter(Boolean).join(" ");
}
