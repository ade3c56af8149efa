// Answers side by side: all models and regions of one question, or all steps of a pipeline.

import { KeyedRows, button, el, setAttr, setText } from "../dom.js";
import { answerCard } from "./answer.js";
import { textOf } from "./text.js";

export class Answers {
  #state;
  #rows;
  #cards = el("div", { class: "answers" });
  #pick = () => [];
  #wanted = "";

  constructor(state, actions) {
    this.#state = state;
    this.#rows = new KeyedRows(this.#cards, (execution) => answerCard(execution, { ...actions, heading: execution.step }));
  }

  get node() {
    return this.#cards;
  }

  /**
   * `pick()` returns the executions to show: their ids, and of each `other`, the one that it is compared with.
   * `wanted` is marked in the answers; `inPairs` shows two in a row.
   */
  show(pick, { wanted = "", inPairs = false } = {}) {
    this.#pick = pick;
    this.#wanted = wanted;
    setAttr(this.#cards, "data-pairs", inPairs);
    this.refresh();
  }

  refresh() {
    const { executions } = this.#state;
    const shown = this.#pick().filter(({ id }) => executions.has(id)).map(({ id, other }) => ({
      ...executions.get(id),
      shown: this.#state.shownState(executions.get(id)),
      comparedWith: other === undefined ? null : textOf(executions.get(other) ?? {}),
      wanted: this.#wanted,
    }));
    this.#rows.show(shown, (execution) => execution.id);
  }

  focus(id) {
    const card = this.#rows.get(id)?.node;
    for (const other of this.#cards.children) setAttr(other, "data-chosen", other === card);
    card?.scrollIntoView({ block: "nearest", behavior: "instant" });
  }
}

/** The heading of a question's answers, with buttons for the previous and next question. */
export function questionHead(items, choose) {
  const title = el("h2");
  const prompt = el("p", { class: "prose muted" });
  const back = button("Previous question", () => move(-1), { class: "small quiet" });
  const next = button("Next question", () => move(1), { class: "small quiet" });
  let current = 0;
  const move = (by) => choose(items[current + by].item);
  const update = (item, text) => {
    current = items.findIndex((row) => row.item === item);
    setText(title, `Answers to ${item}`);
    setText(prompt, text ?? "");
    setAttr(prompt, "hidden", !text);
    setAttr(back, "disabled", current <= 0);
    setAttr(next, "disabled", current >= items.length - 1);
  };
  const buttons = el("div", { class: "actions", hidden: items.length < 2 }, back, next);
  const node = el("div", {}, el("div", { class: "head-row" }, title, buttons), prompt);
  return { node, update };
}
