// Element construction and updates that write only changes. Text is never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "selected", "disabled", "hidden", "indeterminate", "open"]);

export function el(tag, props, ...children) {
  return fillElement(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return fillElement(document.createElementNS(SVG, tag), props, children);
}

function fillElement(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else setAttr(node, name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function setAttr(node, name, value) {
  if (PROPERTIES.has(name)) {
    if (node[name] !== value) node[name] = value;
  } else if (value === null || value === undefined || value === false) {
    node.removeAttribute(name);
  } else {
    const text = value === true ? "" : String(value);
    if (node.getAttribute(name) !== text) node.setAttribute(name, text);
  }
}

export function setText(node, text) {
  const value = text === null || text === undefined ? "" : String(text);
  if (node.textContent !== value) node.textContent = value;
}

/** Rows that keep their element while their key is present: `create(item)` returns `{node, update(item)}`. */
export class KeyedRows {
  #parent;
  #create;
  #known = new Map();

  constructor(parent, create) {
    this.#parent = parent;
    this.#create = create;
  }

  show(items, keyOf) {
    const before = this.#known;
    this.#known = new Map();
    for (const [index, item] of items.entries()) {
      const key = keyOf(item);
      if (this.#known.has(key)) continue;
      const row = before.get(key) ?? this.#create(item);
      row.update(item, index);
      this.#known.set(key, row);
    }
    for (const [key, row] of before) if (!this.#known.has(key)) row.node.remove();
    this.#order();
  }

  #order() {
    let next = this.#parent.firstElementChild;
    for (const { node } of this.#known.values()) {
      if (node === next) next = next.nextElementSibling;
      else this.#parent.insertBefore(node, next);
    }
  }

  get(key) {
    return this.#known.get(key);
  }
}

export function button(label, onclick, props) {
  return el("button", { type: "button", onclick, ...props }, label);
}

/**
 * A labelled control; hint and error are linked to it for screen readers.
 *
 * @param {string} label
 * @param {HTMLElement} control
 * @param {{hint?: string, wide?: boolean}} [options]
 */
export function field(label, control, { hint, wide } = {}) {
  control.id ||= uniqueId("field");
  const note = hint ? el("small", { id: `${control.id}-hint`, class: "hint" }, hint) : null;
  const error = el("small", { id: `${control.id}-error`, class: "field-error", role: "alert" });
  setAttr(control, "aria-describedby", [note?.id, error.id].filter(Boolean).join(" "));
  return el("div", { class: wide ? "field wide" : "field" }, el("label", { for: control.id }, label), control, note, error);
}

/** Show an error under its control; no message removes it. */
export function setError(control, message) {
  setAttr(control, "aria-invalid", message ? "true" : null);
  const error = document.getElementById(`${control.id}-error`);
  if (error) setText(error, message ?? "");
}

/**
 * @param {string[][]} options value and label; the label is optional
 * @param {Record<string, any>} [props] the element's attributes, and the chosen `value`
 */
export function select(options, { value, ...props } = {}) {
  const node = el("select", props, options.map(([option, label]) => new Option(label ?? option, option)));
  if (value !== undefined && options.some(([option]) => option === value)) node.value = value;
  return node;
}

export function table(caption, headings, props) {
  const body = el("tbody");
  const head = headings.map((heading) => {
    const [label, kind] = Array.isArray(heading) ? heading : [heading];
    return el("th", { scope: "col", class: kind }, kind === "header-hidden" ? el("span", { class: "visually-hidden" }, label) : label);
  });
  const node = el("table", props, el("caption", { class: "visually-hidden" }, caption), el("thead", {}, el("tr", {}, head)), body);
  return { node: el("div", { class: "scroller", tabindex: "0", role: "group", "aria-label": caption }, node), body };
}

let counter = 0;

export function uniqueId(prefix) {
  counter += 1;
  return `${prefix}-${counter}`;
}
