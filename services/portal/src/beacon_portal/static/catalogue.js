// What can be asked for, as the API lists it.

/** Models, features and regions, in the order in which the server gives them. */
export async function loadCatalogue(api, signal) {
  const [{ models }, { features }, { regions }] = await Promise.all(
    ["models", "features", "regions"].map((name) => api.get(`api/v1/${name}`, { signal })));
  return {
    models: models.map((model) => ({ id: model.id, regions: model.regions, longest: model.max_duration_s, run: model.expected_run_s ?? 0 })),
    features: features.map(({ name, steps, inputs }) => ({ id: name, steps, inputs })),
    regions: regions.map(({ name }) => name),
  };
}
