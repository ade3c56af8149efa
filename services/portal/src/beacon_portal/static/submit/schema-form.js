// A form for the input of a model, made from its JSON Schema. Kinds of values without a control are edited as JSON.

import { el, field, select, setError } from "../dom.js";
import { uploadField } from "../media/upload-field.js";
import { sentenceCase } from "../labels.js";
import { errorTarget } from "./fields.js";

const MAX_LINE = 120;

/** `draft` has the values of an earlier form of this schema; `context` has `files`, `signal` and `changed`. */
export function schemaForm(schema, draft, context) {
  const required = new Set(schema.required ?? []);
  const controls = Object.entries(schema.properties ?? {}).map(([name, property]) => ({
    name, required: required.has(name), ...controlOf(name, property, draft[name], required.has(name), context),
  }));
  return {
    node: el("div", { class: "stack" }, controls.map(({ node }) => node)),
    draft: () => Object.fromEntries(controls.map(({ name, draft: kept }) => [name, kept()])),
    body: () => ({ input: Object.fromEntries(controls.map(({ name, value }) => [name, value()]).filter(([, value]) => value !== undefined)) }),
    problems: () => controls.map((control) => ({ field: `input.${control.name}`, message: control.problem() })).filter(({ message }) => message),
    fieldOf: (field_) => controls.find(({ name }) => field_ === `input.${name}` || field_.startsWith(`input.${name}.`))?.target ?? null,
  };
}

function controlOf(name, property, kept, required, context) {
  const label = `${property.title ?? sentenceCase(name)}${required ? "" : " (optional)"}`;
  const hint = property.description;
  if (property.properties?.file) {
    const upload = uploadField(label, { ...context, value: kept, hint, accept: property.contentMediaType });
    return { node: upload.node, draft: upload.draft, value: () => upload.reference() ?? undefined, problem: () => upload.problem(required), target: upload };
  }
  const initial = kept ?? property.default;
  if (property.enum) return choice(label, hint, property.enum, initial, required);
  const kind = [property.type].flat()[0];
  if (kind === "boolean") return checkbox(label, initial);
  if (kind === "integer" || kind === "number") return number(label, hint, property, initial, { required, whole: kind === "integer" });
  if (kind === "string") return text(label, hint, property, initial, required);
  return json(label, hint, initial, required);
}

function choice(label, hint, values, initial, required) {
  const options = [...(required ? [] : [["", "Default"]]), ...values.map((value) => [JSON.stringify(value), String(value)])];
  const chosen = typeof initial === "string" && options.some(([option]) => option === initial) ? initial : JSON.stringify(initial);
  const control = select(options, { value: chosen });
  return {
    node: field(label, control, { hint }), draft: () => control.value, target: errorTarget(control), problem: () => null,
    value: () => (control.value ? JSON.parse(control.value) : undefined),
  };
}

function checkbox(label, initial) {
  const control = el("input", { type: "checkbox", checked: initial === true });
  const node = el("label", { class: "check" }, control, label);
  return { node, draft: () => control.checked, value: () => control.checked, problem: () => null, target: errorTarget(control) };
}

function number(label, hint, { minimum, maximum }, initial, { required, whole }) {
  const control = el("input", { type: "number", min: minimum, max: maximum, step: whole ? 1 : "any", value: initial ?? "" });
  return {
    node: field(label, control, { hint }), draft: () => control.value, target: errorTarget(control),
    value: () => (control.value === "" ? undefined : Number(control.value)),
    problem: () => (control.value === "" ? required && "Enter a number." : control.checkValidity() ? null : control.validationMessage),
  };
}

function text(label, hint, { maxLength }, initial, required) {
  const control = maxLength <= MAX_LINE ? el("input", { maxlength: maxLength }) : el("textarea", { rows: 2, maxlength: maxLength });
  control.value = initial ?? "";
  return {
    node: field(label, control, { hint }), draft: () => control.value, target: errorTarget(control),
    value: () => (control.value.trim() ? control.value.trim() : undefined),
    problem: () => (required && !control.value.trim() ? "Enter a value." : null),
  };
}

function json(label, hint, initial, required) {
  const start = initial === undefined || typeof initial === "string" ? initial ?? "" : JSON.stringify(initial);
  const control = el("textarea", { rows: 2, class: "mono", value: start, spellcheck: "false" });
  control.addEventListener("input", () => setError(control));
  return {
    node: field(`${label}, as JSON`, control, { hint }), draft: () => control.value, target: errorTarget(control),
    value: () => (control.value.trim() ? parsed(control.value) : undefined),
    problem() {
      if (!control.value.trim()) return required ? "Enter a value." : null;
      return parsed(control.value) === undefined ? "This is not valid JSON." : null;
    },
  };
}

function parsed(text_) {
  try {
    return JSON.parse(text_);
  } catch {
    return undefined;
  }
}
