// The questions of a matrix.

import { KeyedRows, button, el, field, setAttr, setError, uniqueId } from "../dom.js";

export class Questions {
  #items;
  #rows;
  #changed;
  #list = el("ol", { class: "questions" });
  #addButton = button("Add a question", () => this.#add("").focus(), { class: "small" });
  node;

  constructor(items, changed) {
    this.#items = items?.length ? items : [{ key: 1, id: "q1", prompt: "" }];
    this.#changed = changed;
    this.#rows = new KeyedRows(this.#list, (item) => questionRow(item, { changed, remove: (key) => this.#remove(key) }));
    this.node = el("fieldset", { class: "stack" }, el("legend", {}, "Questions"), this.#list,
      el("div", { class: "actions" }, this.#addButton), this.#pasteForm());
    this.#show();
  }

  get items() {
    return this.#items;
  }

  /** The control of a field: `control(2, "prompt")`. */
  control(index, part) {
    return this.#rows.get(this.#items[index]?.key)?.[part === "id" ? "id" : "prompt"];
  }

  #show() {
    this.#rows.show(this.#items, ({ key }) => key);
  }

  #add(prompt) {
    const key = Math.max(0, ...this.#items.map((item) => item.key)) + 1;
    const taken = new Set(this.#items.map(({ id }) => id));
    let number = this.#items.length + 1;
    while (taken.has(`q${number}`)) number += 1;
    this.#items = [...this.#items, { key, id: `q${number}`, prompt }];
    this.#show();
    this.#changed();
    return this.#rows.get(key).prompt;
  }

  #remove(key) {
    this.#items = this.#items.filter((item) => item.key !== key);
    if (this.#items.length === 0) this.#add("");
    this.#show();
    this.#changed();
    this.#addButton.focus();
  }

  #pasteForm() {
    const many = el("textarea", { rows: 3 });
    const addThem = () => {
      this.#items = this.#items.filter(({ prompt }) => prompt.trim());
      for (const line of many.value.split("\n")) if (line.trim()) this.#add(line.trim());
      many.value = "";
      this.#show();
    };
    return el("details", {}, el("summary", {}, "Paste several"), field("One question per line", many),
      el("div", { class: "actions end" }, button("Add these", addThem, { class: "small" })));
  }
}

function questionRow(item, { changed, remove }) {
  const id = el("input", { value: item.id, "aria-label": "Name", maxlength: 100, class: "mono", id: uniqueId("question") });
  const prompt = el("textarea", {
    value: item.prompt, rows: 1, "aria-label": "Question", placeholder: "What should the models answer?", id: uniqueId("question"),
  });
  const errors = [id, prompt].map((control) => {
    const error = el("small", { id: `${control.id}-error`, class: "field-error", role: "alert" });
    setAttr(control, "aria-describedby", error.id);
    return error;
  });
  id.addEventListener("input", () => { item.id = id.value; setError(id); changed(); });
  prompt.addEventListener("input", () => { item.prompt = prompt.value; setError(prompt); changed(); });
  const removeButton = button("✕", () => remove(item.key), { class: "quiet", "aria-label": `Remove question ${item.id}` });
  const node = el("li", {}, id, prompt, removeButton, errors);
  return { node, id, prompt, update: () => {} };
}
