// The smallest job: one model, one prompt, and a duration where the model makes sound.

import { attr, choice, el, field } from "../dom.js";
import { fieldPlace, numbers } from "./fields.js";

export function generationForm(catalogue, draft, changed) {
  const model = choice(catalogue.models.map(({ id }) => [id]), { value: draft.model });
  const prompt = el("textarea", { rows: 3, value: draft.prompt ?? "" });
  const duration = el("input", { type: "number", min: 1, step: "any", value: draft.duration ?? "" });
  const loop = el("input", { type: "checkbox", checked: draft.loop ?? false });
  const region = choice([["", "Any"]], {});
  const durationField = field("Seconds", duration);
  const loopField = el("label", { class: "check" }, loop, "Loop");
  const chosen = () => catalogue.models.find(({ id }) => id === model.value);

  function show(wanted) {
    const { regions = [], longest } = chosen() ?? {};
    region.replaceChildren(...["", ...regions].map((id) => new Option(id || "Any", id)));
    region.value = regions.includes(wanted) ? wanted : "";
    attr(durationField, "hidden", !longest);
    attr(loopField, "hidden", !longest);
    attr(duration, "max", longest);
  }

  model.addEventListener("change", () => { show(region.value); changed(); });
  show(draft.region);
  const timed = () => Boolean(chosen()?.longest);
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
    size: () => ({ runs: 1, words: "one run", seconds: (timed() && Number(duration.value)) || (chosen()?.run ?? 0) }),
    problems: () => (prompt.value.trim() ? [] : [{ field: "prompt", message: "Write a prompt." }]),
    place: (name) => fieldPlace({ model, prompt, duration, region }[name]),
  };
}
