// A single generation: one model, one prompt, and a duration for audio models.

import { el, field, select, setAttr } from "../dom.js";
import { errorTarget, numbers } from "./fields.js";

export function generationForm(catalogue, draft, changed) {
  const model = select(catalogue.models.map(({ id }) => [id]), { value: draft.model });
  const prompt = el("textarea", { rows: 3, value: draft.prompt ?? "" });
  const duration = el("input", { type: "number", min: 1, step: "any", value: draft.duration ?? "" });
  const loop = el("input", { type: "checkbox", checked: draft.loop ?? false });
  const region = select([["", "Any"]], {});
  const durationField = field("Duration (s)", duration);
  const loopField = el("label", { class: "check" }, loop, "Loop");
  const chosen = () => catalogue.models.find(({ id }) => id === model.value);

  function show(wanted) {
    const { regions = [], maxDurationS } = chosen() ?? {};
    region.replaceChildren(...["", ...regions].map((id) => new Option(id || "Any", id)));
    region.value = regions.includes(wanted) ? wanted : "";
    setAttr(durationField, "hidden", !maxDurationS);
    setAttr(loopField, "hidden", !maxDurationS);
    setAttr(duration, "max", maxDurationS);
  }

  model.addEventListener("change", () => { show(region.value); changed(); });
  show(draft.region);
  const timed = () => Boolean(chosen()?.maxDurationS);
  return {
    node: el("div", { class: "stack" },
      el("div", { class: "fields" }, field("Model", model), field("Region", region), durationField), field("Prompt", prompt), loopField),
    draft: () => ({
      model: model.value, prompt: prompt.value, duration: duration.value, loop: loop.checked, region: region.value,
    }),
    body: () => ({
      model: model.value,
      prompt: prompt.value.trim(),
      ...(timed() && { ...numbers({ duration: duration.value }), loop: loop.checked }),
      ...(region.value && { region: region.value }),
    }),
    models: () => [model.value],
    size: () => ({ runs: 1, breakdown: "one run", seconds: (timed() && Number(duration.value)) || (chosen()?.expectedRunS ?? 0) }),
    problems: () => (prompt.value.trim() ? [] : [{ field: "prompt", message: "Enter a prompt." }]),
    fieldOf: (name) => errorTarget({ model, prompt, duration, region }[name]),
  };
}
