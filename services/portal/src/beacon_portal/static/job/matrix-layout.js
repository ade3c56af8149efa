// The layout of a matrix: questions as rows, models and regions as columns.

/** Rows and columns in the order in which the server lists the executions. */
export function matrixLayout(executions) {
  const rows = new Map();
  const columns = new Map();
  for (const execution of executions) {
    const column = `${execution.model}\n${execution.region}`;
    if (!columns.has(column)) columns.set(column, { key: column, model: execution.model, region: execution.region });
    if (!rows.has(execution.item)) rows.set(execution.item, { item: execution.item, cells: new Map() });
    rows.get(execution.item).cells.set(column, execution.id);
  }
  return { rows: [...rows.values()], columns: byModel([...columns.values()]) };
}

function byModel(columns) {
  const order = [...new Set(columns.map(({ model }) => model))];
  return columns.toSorted((a, b) => order.indexOf(a.model) - order.indexOf(b.model));
}

/** Neighbouring columns of one model share a heading. */
export function modelSpans(columns) {
  /** @type {{model: string, width: number}[]} */
  const spans = [];
  for (const { model } of columns) {
    const last = spans.at(-1);
    if (last && last.model === model) last.width += 1;
    else spans.push({ model, width: 1 });
  }
  return spans;
}
