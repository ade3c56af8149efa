// Pieces that several pages show: badges, notices, confirmations, progress, facts.

import { Refused } from "./api.js";
import { attr, button, el, uniqueId, write } from "./dom.js";
import { problemWords, stateOf } from "./words.js";

export function badge(state) {
  const glyph = el("span", { "aria-hidden": "true" });
  const label = document.createTextNode("");
  const node = el("span", { class: "badge" }, glyph, label);
  const update = (next) => {
    const { tone, glyph: sign, label: words } = stateOf(next);
    attr(node, "data-tone", tone);
    write(glyph, sign);
    if (label.data !== words) label.data = words;
  };
  update(state);
  return { node, update };
}

/** One line that says how something went; empty when there is nothing to say. */
export function notice(props) {
  const node = el("p", { class: "notice", role: "status", hidden: true, ...props });
  return {
    node,
    say(text, tone = "info") {
      attr(node, "data-tone", tone);
      write(node, text);
      attr(node, "hidden", !text);
    },
    fail(error) {
      if (error.name !== "AbortError") this.say(problemWords(error), "bad");
    },
  };
}

/** Shows work that may find its route missing: the panel then says so instead of failing. */
export async function attempt(panel, work, what) {
  try {
    const result = await work();
    panel.say("");
    return result;
  } catch (error) {
    if (error instanceof Refused && error.absent) panel.say(`${what} is not available on this server.`, "info");
    else panel.fail(error);
    throw error;
  }
}

/** Asks before something that cannot be taken back. Resolves to whether it was confirmed. */
export function confirmed({ title, text, action, dangerous = true }) {
  const heading = uniqueId("dialog");
  const dialog = el("dialog", { "aria-labelledby": heading },
    el("form", { method: "dialog" },
      el("h2", { id: heading }, title),
      el("p", {}, text),
      el("div", { class: "actions end" },
        el("button", { value: "no", class: "quiet", autofocus: true }, "Go back"),
        el("button", { value: "yes", class: dangerous ? "danger" : "primary" }, action))));
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "yes"); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A button that cannot be pressed twice while its work is under way. */
export function actionButton(label, work, props) {
  const node = button(label, async () => {
    if (node.getAttribute("aria-disabled") === "true") return;
    attr(node, "aria-disabled", "true");
    try {
      await work();
    } finally {
      attr(node, "aria-disabled", null);
    }
  }, props);
  return node;
}

const SEGMENTS = ["completed", "failed", "cancelled", "running"];

/** Completed, failed and running executions as one bar; what is left of it is pending. */
export function progressBar() {
  const parts = SEGMENTS.map((name) => el("span", { "data-tone": stateOf(name).tone }));
  const aria = { role: "progressbar", "aria-label": "Progress", "aria-valuemin": 0, "aria-valuemax": 100 };
  const node = el("div", { class: "progress", ...aria }, parts);
  const update = (progress) => {
    const total = Math.max(progress.total, 1);
    const done = progress.completed + progress.failed + progress.cancelled;
    SEGMENTS.forEach((name, index) => {
      const width = `${((progress[name] / total) * 100).toFixed(2)}%`;
      if (parts[index].style.width !== width) parts[index].style.width = width;
    });
    attr(node, "aria-valuenow", Math.round((done / total) * 100));
    attr(node, "aria-valuetext", `${done} of ${progress.total} done`);
  };
  return { node, update };
}

/** Terms and values, each written only when it changed; a value of null hides its term. */
export function facts(names) {
  const values = new Map();
  const node = el("dl", { class: "facts" }, names.map(([key, label]) => {
    const value = el("dd");
    const pair = el("div", { hidden: true }, el("dt", {}, label), value);
    values.set(key, { pair, value });
    return pair;
  }));
  const update = (given) => {
    for (const [key, { pair, value }] of values) {
      attr(pair, "hidden", given[key] === null || given[key] === undefined);
      write(value, given[key]);
    }
  };
  return { node, update };
}

export function pageHead(title, ...extra) {
  return el("div", { class: "page-head" }, el("h1", { tabindex: "-1" }, title), ...extra);
}

export function panel(title, ...children) {
  const id = uniqueId("panel");
  return el("section", { class: "panel", "aria-labelledby": id }, el("h2", { id }, title), ...children);
}

export function empty(text) {
  return el("p", { class: "empty" }, text);
}
