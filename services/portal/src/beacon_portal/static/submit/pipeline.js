// A pipeline: a configured feature, its steps and their inputs.

import { button, el, field, select, setAttr } from "../dom.js";
import { uploadField } from "../media/upload-field.js";
import { errorTarget } from "./fields.js";

export function pipelineForm(catalogue, draft, context) {
  const { changed } = context;
  const feature = select(catalogue.features.map(({ id }) => [id]), { value: draft.feature });
  const region = select([["", "Any"], ...catalogue.regions.map((id) => [id])], { value: draft.region });
  const steps = el("ol", { class: "chain", "aria-label": "Steps" });
  const inputs = el("div", { class: "stack" });
  const values = { ...draft.input };
  let controls = new Map();
  const chosen = () => catalogue.features.find(({ id }) => id === feature.value);


  function show() {
    const { steps: all = [], inputs: names = ["prompt"] } = chosen() ?? {};
    steps.replaceChildren(...all.map(stepNode));
    controls = new Map(names.map((name) => [name, inputControl(name, values, context)]));
    inputs.replaceChildren(...[...controls.values()].map(({ node }) => node));
  }

  feature.addEventListener("change", () => { show(); changed(); });
  show();
  return {
    node: el("div", { class: "stack" },
      el("div", { class: "fields" }, field("Feature", feature), field("Region", region)), steps, inputs),
    draft: () => ({ feature: feature.value, region: region.value, input: values }),
    body: () => ({
      feature: feature.value,
      input: Object.fromEntries([...controls].map(([name, { value }]) => [name, value()])),
      ...(region.value && { region: region.value }),
    }),
    models: () => (chosen()?.steps ?? []).map(({ model }) => model),
    size() {
      const steps = chosen()?.steps ?? [];
      const runOf = new Map(catalogue.models.map(({ id, expectedRunS }) => [id, expectedRunS]));
      return { runs: steps.length, breakdown: "steps", seconds: steps.reduce((sum, { model }) => sum + (runOf.get(model) ?? 0), 0) };
    },
    problems() {
      const found = [...controls].map(([name, { problem }]) => ({ field: `input.${name}`, message: problem() }));
      return found.filter(({ message }) => message);
    },
    fieldOf(name) {
      if (name.startsWith("input.")) return controls.get(name.split(".")[1])?.target ?? null;
      return errorTarget({ feature, region }[name]);
    },
  };
}

/** Text, or a file in its place. `values` keeps what was entered. */
function inputControl(name, values, context) {
  const kept = values[name];
  const label = name === "prompt" ? "Prompt" : name;
  const text = el("textarea", { rows: 2, value: typeof kept === "string" ? kept : "" });
  const textField = field(label, text);
  const fileSlot = el("div", { hidden: true });
  const attach = button("Use a file", () => { openUpload(null); upload.focus(); }, { class: "small quiet", "aria-label": `Use a file as ${name}` });
  const node = el("div", { class: "stack" }, textField, fileSlot, el("div", { class: "actions" }, attach));
  let upload;
  text.addEventListener("input", () => { values[name] = text.value; });

  function openUpload(value) {
    const changed = () => { values[name] = upload?.draft() ?? text.value; show(); context.changed(); };
    upload = uploadField(`File for ${name}`, { ...context, value, changed });
    fileSlot.replaceChildren(upload.node);
    show();
  }

  function show() {
    setAttr(fileSlot, "hidden", !upload);
    setAttr(textField, "hidden", Boolean(upload?.reference()));
    setAttr(attach, "hidden", Boolean(upload));
  }

  if (kept?.file) openUpload(kept);
  return {
    node,
    value: () => upload?.reference() ?? text.value.trim(),
    problem: () => upload?.problem(false) || (upload?.reference() || text.value.trim() ? null : "Enter a value."),
    get target() { return upload?.reference() ? upload : errorTarget(text); },
  };
}

function stepNode({ name, model }) {
  return el("li", {}, name, model !== name && el("small", { class: "muted" }, ` ${model}`));
}
