// The matrix form: every question runs on every chosen model in every chosen region that serves it.

import { el, field, select } from "../dom.js";
import { errorTarget, numbers } from "./fields.js";
import { Picker } from "./picker.js";
import { Questions } from "./questions.js";

export function matrixForm(catalogue, draft, { changed }) {
  const questions = new Questions(draft.questions, changed);
  const offered = catalogue.models.map(({ id, regions: serving }) => ({ id, note: serving.join(" ") }));
  const models = new Picker("Models", offered, draft.models, changed);
  const regions = new Picker("Regions", catalogue.regions.map((id) => ({ id })), draft.regions ?? catalogue.regions, changed);
  const temperature = el("input", { type: "number", min: 0, max: 2, step: "any", value: draft.temperature ?? "" });
  const tokens = el("input", { type: "number", min: 1, step: 1, value: draft.tokens ?? "" });
  const failover = select([["any", "Use another region"], ["pinned", "Wait for the region"]], { value: draft.failover });
  const node = el("div", { class: "stack" }, questions.node, models.node, regions.node,
    el("div", { class: "fields" },
      field("Temperature", temperature), field("Max tokens", tokens), field("If a region fails", failover)));

  const targets = () => targetsOf(catalogue, models.chosen(), regions.chosen());

  return {
    node,
    draft: () => ({
      questions: questions.items, models: models.chosen(), regions: regions.chosen(),
      temperature: temperature.value, tokens: tokens.value, failover: failover.value,
    }),
    body: () => ({
      questions: questions.items.map(({ id, prompt }) => ({ id: id.trim(), prompt: prompt.trim() })),
      models: targets().map(({ id, placed }) => (placed.length === regions.chosen().length ? id : { id, regions: placed })),
      regions: regions.chosen(),
      params: numbers({ temperature: temperature.value, max_tokens: tokens.value }),
      failover: failover.value,
    }),
    models: () => models.chosen(),
    size() {
      const asked = questions.items.length;
      const runs = targets().reduce((sum, { placed }) => sum + placed.length, 0) * asked;
      const seconds = targets().reduce((sum, { placed, expectedRunS }) => sum + placed.length * expectedRunS, 0) * asked;
      return { runs, seconds, breakdown: `${questions.items.length} × ${models.chosen().length} × ${regions.chosen().length}` };
    },
    problems: () => matrixProblems(questions.items, targets(), regions.chosen()),
    fieldOf(name) {
      const [, index, part] = /^questions\[(\d+)\]\.?(\w*)/.exec(name) ?? [];
      if (index !== undefined) return errorTarget(questions.control(Number(index), part));
      if (name.startsWith("questions")) return errorTarget(questions.control(0, "prompt"));
      if (name.startsWith("models")) return models;
      return name.startsWith("regions") ? regions : null;
    },
  };
}

function matrixProblems(questions, targets, regions) {
  const found = questions.flatMap(({ id, prompt }, index) => [
    !id.trim() && { field: `questions[${index}].id`, message: "Enter a name." },
    !prompt.trim() && { field: `questions[${index}].prompt`, message: "Enter a question." },
  ]).filter(Boolean);
  if (!targets.length) found.push({ field: "models", message: "Choose at least one model." });
  if (!regions.length) found.push({ field: "regions", message: "Choose at least one region." });
  const unserved = regions.length ? targets.filter(({ placed }) => !placed.length) : [];
  for (const { id, serving } of unserved) found.push({ field: "models", message: `${id} is served only in ${serving.join(", ")}.` });
  return found;
}

/** Each model with those of the chosen regions that serve it. */
function targetsOf(catalogue, models, regions) {
  return catalogue.models.filter(({ id }) => models.includes(id))
    .map(({ id, expectedRunS, regions: serving }) => ({ id, expectedRunS, serving, placed: regions.filter((region) => serving.includes(region)) }));
}
