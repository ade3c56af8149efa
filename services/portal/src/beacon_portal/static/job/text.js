// Answers as text: what is searched and compared, and marks in what a page shows.

import { el } from "../dom.js";
import { filesIn } from "../media/files.js";
import { differences } from "./differences.js";

/** The text of an answer; null if there is none, or if it is a file. */
export function textOf({ state, output, withoutOutput }) {
  if (state !== "completed" || withoutOutput || filesIn(output).length) return null;
  const values = typeof output === "object" && output !== null && !Array.isArray(output) ? Object.values(output) : [output];
  const text = values.length === 1 && typeof values[0] === "string" ? values[0] : JSON.stringify(output ?? "", null, 2);
  return text.startsWith("data:") ? null : text;
}

/** A text with marks at what is not in the other one. */
export function comparedText(text, other) {
  const [shown] = differences(text, other);
  return el("p", { class: "prose" }, shown.map((piece) => (piece.common ? piece.text : el("mark", { class: "different" }, piece.text))));
}

/** Mark every place of a text in the text of an element, in any case. */
export function markMatches(node, wanted) {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  /** @type {Text[]} */
  const texts = [];
  while (walker.nextNode()) texts.push(/** @type {Text} */ (walker.currentNode));
  for (const text of texts) text.replaceWith(...marked(text.data, wanted));
}

function marked(text, wanted) {
  const parts = [];
  const pattern = new RegExp(wanted.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"), "giu");
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    parts.push(text.slice(end, match.index), el("mark", {}, match[0]));
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}
