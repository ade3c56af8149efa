// Answers side by side: all models and regions of one question, or all steps of a pipeline.

import { Rows, attr, button, el, write } from "../dom.js";
import { answerCard } from "./answer.js";

export class Answers {
  #state;
  #rows;
  #cards = el("div", { class: "answers" });
  #pick = () => [];
  #doings;

  constructor(state, doings) {
    this.#state = state;
    this.#doings = doings;
    this.#rows = new Rows(this.#cards, (execution) => answerCard(execution, { ...doings, heading: execution.step }));
  }

  get node() {
    return this.#cards;
  }

  /** `pick()` gives the ids of the executions to show. */
  show(pick) {
    this.#pick = pick;
    this.refresh();
  }

  refresh() {
    const shown = this.#pick().map((id) => this.#state.executions.get(id)).filter(Boolean)
      .map((execution) => ({ ...execution, shown: this.#state.shownState(execution) }));
    this.#rows.show(shown, (execution) => execution.id);
  }

  focus(id) {
    const card = this.#rows.get(id)?.node;
    for (const other of this.#cards.children) attr(other, "data-chosen", other === card);
    card?.scrollIntoView({ block: "nearest", behavior: "instant" });
  }
}

/** The heading over a question's answers, with a way to the questions before and after it. */
export function questionHead(items, choose) {
  const title = el("h2");
  const prompt = el("p", { class: "prose muted" });
  const back = button("Previous question", () => move(-1), { class: "small quiet" });
  const on = button("Next question", () => move(1), { class: "small quiet" });
  let current = 0;
  const move = (by) => choose(items[current + by].item);
  const update = (item, text) => {
    current = items.findIndex((row) => row.item === item);
    write(title, `Answers to ${item}`);
    write(prompt, text ?? "");
    attr(prompt, "hidden", !text);
    attr(back, "disabled", current <= 0);
    attr(on, "disabled", current >= items.length - 1);
  };
  const turning = el("div", { class: "actions", hidden: items.length < 2 }, back, on);
  const node = el("div", {}, el("div", { class: "head-row" }, title, turning), prompt);
  return { node, update };
}
