// What can be asked for, as the API lists it.

const listOf = (answer, name) => (Array.isArray(answer) ? answer : answer[name] ?? []);

/** Models, features and regions, in the order in which the server gives them. */
export async function loadCatalogue(api, signal) {
  const [models, features, regions] = await Promise.all(
    ["models", "features", "regions"].map((name) => api.get(`api/v1/${name}`, { signal })));
  return {
    models: listOf(models, "models").map((model) => ({ id: model.id, regions: model.regions, longest: model.max_duration_s ?? null })),
    features: listOf(features, "features").map((feature) => ({ id: feature.name, steps: feature.steps, inputs: feature.inputs ?? ["prompt"] })),
    regions: listOf(regions, "regions").map((region) => region.name ?? region.region),
  };
}
