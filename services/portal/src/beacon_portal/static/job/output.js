// The output of a model as text, link, embedded image or JSON.

import { el } from "../dom.js";
import { sentenceCase } from "../labels.js";

/** The element for an output; of a chat response without text, its tool calls. An empty output is shown as such. */
export function outputNode(output, response) {
  const toolCalls = response?.choices?.[0]?.message?.tool_calls;
  if (output === "" && toolCalls?.length) return dataNode(toolCalls);
  if (output === "" || output === null || output === undefined) return el("p", { class: "muted" }, "Empty answer");
  if (typeof output === "string") return textNode(output);
  if (typeof output !== "object" || Array.isArray(output)) return dataNode(output);
  const entries = Object.entries(output);
  if (entries.length === 1) return valueNode(entries[0][1]);
  const pair = ([name, value]) => el("div", {}, el("dt", {}, sentenceCase(name)), el("dd", {}, valueNode(value)));
  return el("dl", { class: "output" }, entries.map(pair));
}

function valueNode(value) {
  if (typeof value === "string") return value ? textNode(value) : el("p", { class: "muted" }, "Empty answer");
  return typeof value === "object" ? dataNode(value) : el("p", {}, String(value));
}

function textNode(text) {
  if (/^data:image\/(png|jpeg|webp|gif);/.test(text)) return el("img", { src: text, alt: "Generated image", loading: "lazy" });
  if (/^https?:\/\/\S+$/.test(text)) {
    return el("p", {}, el("a", { href: text, rel: "noreferrer noopener", target: "_blank" }, text));
  }
  return el("p", { class: "prose" }, text);
}

function dataNode(value) {
  return el("pre", {}, JSON.stringify(value, null, 2));
}
