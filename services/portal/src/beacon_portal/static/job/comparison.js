// Two models, or two regions, of a matrix side by side.

import { el, field, select, setAttr, setText } from "../dom.js";
import { count } from "../labels.js";
import { textOf } from "./text.js";

const KINDS = { model: "region", region: "model" };

/** `changed()` is called after another choice. The control is hidden if there is nothing to compare. */
export class Comparison {
  node;
  #layout;
  #left;
  #right;
  #result = el("p", { class: "muted", role: "status" });

  constructor(layout, changed) {
    this.#layout = layout;
    const options = Object.keys(KINDS).flatMap((kind) => choices(layout.columns, kind));
    const changedLeft = () => { this.#offer(options); changed(); };
    this.#left = select([["", "Nothing"], ...options], { onchange: changedLeft });
    this.#right = select([], { onchange: changed });
    this.node = el("div", { class: "filters", hidden: options.length === 0 },
      field("Compare", this.#left), field("Compare with", this.#right), this.#result);
    this.#offer(options);
  }

  get active() {
    return this.#left.value !== "";
  }

  /** The pairs of executions of one question; both are part of the job. */
  pairsOf({ cells }) {
    if (!this.active) return [];
    const [kind, left] = this.#left.value.split("\n");
    const [, right] = this.#right.value.split("\n");
    const other = KINDS[kind];
    return this.#layout.columns.filter((column) => column[kind] === left).flatMap((column) => {
      const partner = this.#layout.columns.find((one) => one[kind] === right && one[other] === column[other]);
      const ids = [cells.get(column.key), partner && cells.get(partner.key)];
      return ids.every(Boolean) ? [ids] : [];
    });
  }

  /** Which of the executions on the right side have another answer than their partners: id → whether it differs. */
  evaluate(executions) {
    const found = new Map();
    for (const row of this.#layout.rows) {
      for (const [left, right] of this.pairsOf(row)) {
        const [one, other] = [left, right].map((id) => textOf(executions.get(id)));
        if (one !== null && other !== null) found.set(right, one !== other);
      }
    }
    const different = [...found.values()].filter(Boolean).length;
    setText(this.#result, this.active ? `${count(found.size, "pair")} of answers, ${different.toLocaleString()} of them different` : "");
    return found;
  }

  #offer(options) {
    const [kind] = this.#left.value.split("\n");
    const partners = options.filter(([value]) => value !== this.#left.value && value.startsWith(`${kind}\n`));
    const before = this.#right.value;
    this.#right.replaceChildren(...(this.active ? partners : []).map(([value, label]) => new Option(label, value)));
    if (partners.some(([value]) => value === before)) this.#right.value = before;
    setAttr(this.#right.closest(".field") ?? this.#right, "hidden", !this.active);
  }
}

function choices(columns, kind) {
  const names = [...new Set(columns.map((column) => column[kind]))];
  return names.length > 1 ? names.map((name) => [`${kind}\n${name}`, name]) : [];
}
