// The output of a model as text, link, embedded image or JSON.

import { el } from "../dom.js";
import { sentenceCase } from "../labels.js";
import { fileId, filesIn } from "../media/files.js";

/**
 * The element for an output; of a chat response without text, its tool calls. An empty output is shown as such.
 * `viewer` shows the files in it, at any depth; `label` names them.
 *
 * @param {any} output
 * @param {{response?: any, viewer?: any, label?: string}} [options]
 */
export function outputNode(output, { response, viewer, label = "output" } = {}) {
  const toolCalls = response?.choices?.[0]?.message?.tool_calls;
  if (output === "" && toolCalls?.length) return dataNode(toolCalls);
  if (output === "" || output === null || output === undefined) return el("p", { class: "muted" }, "Empty answer");
  const show = (value) => valueNode(value, viewer, label);
  if (typeof output !== "object" || fileId(output)) return show(output);
  if (Array.isArray(output)) return filesIn(output).length ? el("div", { class: "stack" }, output.map(show)) : dataNode(output);
  const entries = Object.entries(output);
  if (entries.length === 1) return show(entries[0][1]);
  const pair = ([name, value]) => el("div", {}, el("dt", {}, sentenceCase(name)), el("dd", {}, show(value)));
  return el("dl", { class: "output" }, entries.map(pair));
}

function valueNode(value, viewer, label) {
  if (viewer && fileId(value)) return viewer.node(value, label);
  if (typeof value === "string") return value ? textNode(value) : el("p", { class: "muted" }, "Empty answer");
  if (typeof value !== "object") return el("p", {}, String(value));
  return viewer && filesIn(value).length ? outputNode(value, { viewer, label }) : dataNode(value);
}

function textNode(text) {
  if (/^data:image\/(png|jpeg|webp|gif);/.test(text)) return el("img", { src: text, alt: "Generated image", loading: "lazy" });
  if (/^data:audio\/[\w.+-]+;/.test(text)) return el("audio", { src: text, controls: true, "aria-label": "Generated sound" });
  if (/^https?:\/\/\S+$/.test(text)) {
    return el("p", {}, el("a", { href: text, rel: "noreferrer noopener", target: "_blank" }, text));
  }
  return el("p", { class: "prose" }, text);
}

function dataNode(value) {
  return el("pre", {}, JSON.stringify(value, null, 2));
}
