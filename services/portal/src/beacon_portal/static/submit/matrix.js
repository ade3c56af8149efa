// The matrix builder: every question goes to every chosen model in every chosen region that serves it.

import { choice, el, field } from "../dom.js";
import { fieldPlace, numbers } from "./fields.js";
import { Picker } from "./picker.js";
import { Questions } from "./questions.js";

export function matrixForm(catalogue, draft, changed) {
  const questions = new Questions(draft.questions, changed);
  const offered = catalogue.models.map(({ id, regions: serving }) => ({ id, note: serving.join(" ") }));
  const models = new Picker("Models", offered, draft.models, changed);
  const regions = new Picker("Regions", catalogue.regions.map((id) => ({ id })), draft.regions ?? catalogue.regions, changed);
  const temperature = el("input", { type: "number", min: 0, max: 2, step: "any", value: draft.temperature ?? "" });
  const tokens = el("input", { type: "number", min: 1, step: 1, value: draft.tokens ?? "" });
  const failover = choice([["any", "Another may take over"], ["pinned", "Stay and wait"]], { value: draft.failover });
  const node = el("div", { class: "stack" }, questions.node, models.node, regions.node,
    el("div", { class: "fields" },
      field("Temperature", temperature), field("Most tokens", tokens), field("If a region fails", failover)));

  const targets = () => targetsOf(catalogue, models.chosen(), regions.chosen());

  return {
    node,
    draft: () => ({
      questions: questions.items, models: models.chosen(), regions: regions.chosen(),
      temperature: temperature.value, tokens: tokens.value, failover: failover.value,
    }),
    body: () => ({
      questions: questions.items.map(({ id, prompt }) => ({ id: id.trim(), prompt: prompt.trim() })),
      models: targets().map(({ id, places }) => (places.length === regions.chosen().length ? id : { id, regions: places })),
      regions: regions.chosen(),
      params: numbers({ temperature: temperature.value, max_tokens: tokens.value }),
      failover: failover.value,
    }),
    models: () => models.chosen(),
    size() {
      const asked = questions.items.length;
      const runs = targets().reduce((sum, { places }) => sum + places.length, 0) * asked;
      const seconds = targets().reduce((sum, { places, run }) => sum + places.length * run, 0) * asked;
      return { runs, seconds, words: `${questions.items.length} × ${models.chosen().length} × ${regions.chosen().length}` };
    },
    problems: () => matrixProblems(questions.items, targets(), regions.chosen()),
    place(name) {
      const [, index, part] = /^questions\[(\d+)\]\.?(\w*)/.exec(name) ?? [];
      if (index !== undefined) return fieldPlace(questions.place(Number(index), part));
      if (name.startsWith("questions")) return fieldPlace(questions.place(0, "prompt"));
      if (name.startsWith("models")) return models;
      return name.startsWith("regions") ? regions : null;
    },
  };
}

function matrixProblems(questions, targets, regions) {
  const found = questions.flatMap(({ id, prompt }, index) => [
    !id.trim() && { field: `questions[${index}].id`, message: "Give it a name." },
    !prompt.trim() && { field: `questions[${index}].prompt`, message: "Write the question." },
  ]).filter(Boolean);
  if (!targets.length) found.push({ field: "models", message: "Choose at least one model." });
  if (!regions.length) found.push({ field: "regions", message: "Choose at least one region." });
  const nowhere = regions.length ? targets.filter(({ places }) => !places.length) : [];
  for (const { id, serving } of nowhere) found.push({ field: "models", message: `${id} runs only in ${serving.join(", ")}.` });
  return found;
}

/** Each model with those of the chosen regions that serve it. */
function targetsOf(catalogue, models, regions) {
  return catalogue.models.filter(({ id }) => models.includes(id))
    .map(({ id, run, regions: serving }) => ({ id, run, serving, places: regions.filter((region) => serving.includes(region)) }));
}
