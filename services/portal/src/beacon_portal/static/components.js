// Components that several pages use: badges, notices, confirmations, progress, facts.

import { ApiError } from "./api.js";
import { button, el, setAttr, setText, uniqueId } from "./dom.js";
import { problemText, stateOf } from "./labels.js";

export function badge(state) {
  const glyph = el("span", { "aria-hidden": "true" });
  const label = document.createTextNode("");
  const node = el("span", { class: "badge" }, glyph, label);
  const update = (next) => {
    const { tone, glyph: symbol, label: text } = stateOf(next);
    setAttr(node, "data-tone", tone);
    setText(glyph, symbol);
    if (label.data !== text) label.data = text;
  };
  update(state);
  return { node, update };
}

/** A status line; hidden while its text is empty. */
export function createNotice(props) {
  const node = el("p", { class: "notice", role: "status", hidden: true, ...props });
  return {
    node,
    show(text, tone = "info") {
      setAttr(node, "data-tone", tone);
      setText(node, text);
      setAttr(node, "hidden", !text);
    },
    showError(error) {
      if (error.name !== "AbortError") this.show(problemText(error), "bad");
    },
  };
}

/** Run `work` and show its error in the notice, also when the server lacks the route of `subject`. */
export async function reportErrors(notice, work, subject) {
  try {
    const result = await work();
    notice.show("");
    return result;
  } catch (error) {
    if (error instanceof ApiError && error.absent) notice.show(`${subject} is not available on this server.`, "info");
    else notice.showError(error);
    throw error;
  }
}

/**
 * Ask before an action with consequences; `details` are listed. Resolves to whether it was confirmed.
 *
 * @param {{title: string, text: string, action: string, dangerous?: boolean, details?: string[]}} question
 */
export function confirmAction({ title, text, action, dangerous = true, details = [] }) {
  const heading = uniqueId("dialog");
  const dialog = el("dialog", { "aria-labelledby": heading },
    el("form", { method: "dialog" },
      el("h2", { id: heading }, title),
      el("p", {}, text),
      details.length > 0 && el("ul", { class: "reasons" }, details.map((detail) => el("li", {}, detail))),
      el("div", { class: "actions end" },
        el("button", { value: "no", class: "quiet", autofocus: true }, "Go back"),
        el("button", { value: "yes", class: dangerous ? "danger" : "primary" }, action))));
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "yes"); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A dialog that is closed by its button; removed when it closes. */
export function openDialog(title, ...children) {
  const heading = uniqueId("dialog");
  const dialog = el("dialog", { "aria-labelledby": heading, onclose: () => dialog.remove() },
    el("h2", { id: heading }, title), ...children,
    el("form", { method: "dialog", class: "actions end" }, el("button", { class: "quiet" }, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}

/** Show a new key or secret; it cannot be shown again. */
export function showSecret(title, label, secret) {
  const value = el("input", { value: secret, readonly: true, class: "mono", "aria-label": label });
  openDialog(title, el("p", {}, `This ${label.toLowerCase()} is shown only once. Store it in a safe place.`), value);
  value.select();
}

/** A button that ignores clicks while its work is running. */
export function actionButton(label, work, props) {
  const node = button(label, async () => {
    if (node.getAttribute("aria-disabled") === "true") return;
    setAttr(node, "aria-disabled", "true");
    try {
      await work();
    } finally {
      setAttr(node, "aria-disabled", null);
    }
  }, props);
  return node;
}

const PREVIEW = /^data:image\/(png|jpeg|webp);base64,/;
const SEGMENTS = ["completed", "failed", "cancelled", "running"];

/** Completed, failed, cancelled and running executions as one bar; the rest is pending. `percent`: how much is done. */
export function progressBar() {
  const parts = SEGMENTS.map((name) => el("span", { "data-tone": stateOf(name).tone }));
  const aria = { role: "progressbar", "aria-label": "Progress", "aria-valuemin": 0, "aria-valuemax": 100 };
  const node = el("div", { class: "progress", ...aria }, parts);
  const update = (progress, percent = progress.percent) => {
    const total = Math.max(progress.total, 1);
    const done = progress.completed + progress.failed + progress.cancelled;
    SEGMENTS.forEach((name, index) => {
      const width = `${((progress[name] / total) * 100).toFixed(2)}%`;
      if (parts[index].style.width !== width) parts[index].style.width = width;
    });
    setAttr(node, "aria-valuenow", Math.round(percent));
    setAttr(node, "aria-valuetext", `${done} of ${progress.total} done`);
  };
  return { node, update };
}

/** The progress of one run: a bar, or one without an end where the percent is unknown, a message and a preview. */
export function runProgress() {
  const bar = el("progress", { max: 100, "aria-label": "Progress of the run" });
  const text = el("small", { class: "muted" });
  const preview = el("img", { alt: "Preview", hidden: true });
  const node = el("div", { class: "stack", hidden: true }, el("div", { class: "with-bar" }, bar, text), preview);
  const update = (progress) => {
    setAttr(node, "hidden", !progress);
    if (!progress) return;
    const { percent, message } = progress;
    if (Number.isFinite(percent)) setAttr(bar, "value", percent);
    else bar.removeAttribute("value");
    setText(text, [Number.isFinite(percent) && `${Math.round(percent)} %`, message].filter(Boolean).join(" · "));
    const source = PREVIEW.test(progress.preview ?? "") ? progress.preview : null;
    setAttr(preview, "hidden", !source);
    setAttr(preview, "src", source);
  };
  return { node, update };
}

/** Labels and values, each written only when it changed; null hides a pair. */
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
      setAttr(pair, "hidden", given[key] === null || given[key] === undefined);
      setText(value, given[key]);
    }
  };
  return { node, update };
}

export function pageHeader(title, ...extra) {
  return el("div", { class: "page-head" }, el("h1", { tabindex: "-1" }, title), ...extra);
}

export function panel(title, ...children) {
  const id = uniqueId("panel");
  return el("section", { class: "panel", "aria-labelledby": id }, el("h2", { id }, title), ...children);
}

export function emptyNote(text) {
  return el("p", { class: "empty" }, text);
}
