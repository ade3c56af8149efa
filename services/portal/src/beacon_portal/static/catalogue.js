// The models, features and regions that the API offers.

/** Models, features and regions in the order of the server. */
export async function loadCatalogue(api, signal) {
  const [{ models }, { features }, { regions }] = await Promise.all(
    ["models", "features", "regions"].map((name) => api.get(`api/v1/${name}`, { signal })));
  return {
    models: models.map((model) => ({
      id: model.id, regions: model.regions, maxDurationS: model.max_duration_s, expectedRunS: model.expected_run_s ?? 0,
      inputSchema: model.input_schema,
    })),
    features: features.map(({ name, steps, inputs }) => ({ id: name, steps, inputs })),
    regions: regions.map(({ name }) => name),
  };
}
