// A group of checkboxes with one error message.

import { button, el, setAttr, setText, uniqueId } from "../dom.js";

export class Picker {
  #boxes;
  #error = el("small", { class: "field-error", role: "alert", id: uniqueId("picker") });
  node;

  /** `options` are `{id, note}`; those in `chosen` are ticked. */
  constructor(label, options, chosen, changed) {
    const ticked = new Set(chosen ?? []);
    this.#boxes = options.map(({ id }) => el("input", { type: "checkbox", value: id, checked: ticked.has(id) }));
    const tickAll = () => { this.#tickAll(); changed(); };
    const all = button("All", tickAll, { class: "small quiet", "aria-label": `All ${label.toLowerCase()}` });
    const checks = options.map(({ id, note }, index) => el("label", { class: "check" }, this.#boxes[index],
      el("span", {}, id, note && el("small", { class: "muted" }, ` ${note}`))));
    this.node = el("fieldset", { "aria-describedby": this.#error.id },
      el("legend", { class: "with-button" }, label, all), el("div", { class: "checks" }, checks), this.#error);
    this.node.addEventListener("change", () => { this.setError(); changed(); });
  }

  chosen() {
    return this.#boxes.filter((box) => box.checked).map((box) => box.value);
  }

  setError(message) {
    setText(this.#error, message ?? "");
    for (const box of this.#boxes) setAttr(box, "aria-invalid", message ? "true" : null);
  }

  focus() {
    this.#boxes[0]?.focus();
  }

  #tickAll() {
    const on = this.#boxes.some((box) => !box.checked);
    for (const box of this.#boxes) box.checked = on;
    this.setError();
  }
}
