// A pipeline: a configured feature, its steps and their inputs.

import { el, field, select } from "../dom.js";
import { errorTarget } from "./fields.js";

export function pipelineForm(catalogue, draft, changed) {
  const feature = select(catalogue.features.map(({ id }) => [id]), { value: draft.feature });
  const region = select([["", "Any"], ...catalogue.regions.map((id) => [id])], { value: draft.region });
  const steps = el("ol", { class: "chain", "aria-label": "Steps" });
  const inputs = el("div", { class: "stack" });
  const values = { ...draft.input };
  let controls = new Map();
  const chosen = () => catalogue.features.find(({ id }) => id === feature.value);

  function inputFor(name) {
    const oninput = ({ target }) => { values[name] = target.value; changed(); };
    return el("textarea", { rows: 2, value: values[name] ?? "", oninput });
  }

  function show() {
    const { steps: all = [], inputs: names = ["prompt"] } = chosen() ?? {};
    steps.replaceChildren(...all.map(stepNode));
    controls = new Map(names.map((name) => [name, inputFor(name)]));
    inputs.replaceChildren(...[...controls].map(([name, control]) => field(name === "prompt" ? "Prompt" : name, control)));
  }

  feature.addEventListener("change", () => { show(); changed(); });
  show();
  return {
    node: el("div", { class: "stack" },
      el("div", { class: "fields" }, field("Feature", feature), field("Region", region)), steps, inputs),
    draft: () => ({ feature: feature.value, region: region.value, input: values }),
    body: () => ({
      feature: feature.value,
      input: Object.fromEntries([...controls].map(([name, control]) => [name, control.value.trim()])),
      ...(region.value && { region: region.value }),
    }),
    models: () => (chosen()?.steps ?? []).map(({ model }) => model),
    size() {
      const steps = chosen()?.steps ?? [];
      const runOf = new Map(catalogue.models.map(({ id, expectedRunS }) => [id, expectedRunS]));
      return { runs: steps.length, breakdown: "steps", seconds: steps.reduce((sum, { model }) => sum + (runOf.get(model) ?? 0), 0) };
    },
    problems() {
      const blank = [...controls].filter(([, control]) => !control.value.trim());
      return blank.map(([name]) => ({ field: `input.${name}`, message: "Enter a value." }));
    },
    fieldOf(name) {
      if (name.startsWith("input.")) return errorTarget(controls.get(name.slice(6)));
      return errorTarget({ feature, region }[name]);
    },
  };
}

function stepNode({ name, model }) {
  return el("li", {}, name, model !== name && el("small", { class: "muted" }, ` ${model}`));
}
