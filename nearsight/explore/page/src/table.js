// Filter, sort and group the rows of runs: plain functions, quick for thousands of rows.

/** @import {Run} from './types.js' */

export const FACTS = /** @type {const} */ (['name', 'protocol', 'model', 'data', 'seed', 'status']);

/**
 * What a run has in a column: a fact, a value, or a setting.
 * @param {Run} run
 * @param {string} column
 * @returns {string | number | boolean | null}
 */
export function cellOf(run, column) {
  if (/** @type {readonly string[]} */ (FACTS).includes(column)) return /** @type {any} */ (run)[column];
  if (column.startsWith('settings.')) return run.settings[column.slice(9)] ?? null;
  return run.values[column]?.[0] ?? null;
}

/**
 * The typed text as a regular expression, or null if it is not one.
 * @param {string} text
 */
export function pattern(text) {
  try {
    return new RegExp(text, 'i');
  } catch {
    return null;
  }
}

/**
 * The text of a run that the filter searches.
 * @param {Run} run
 */
const searchText = (run) =>
  `${run.name} ${run.protocol} ${run.model} ${run.data} seed ${run.seed} ${run.status} ` +
  Object.entries(run.settings).map(([key, value]) => `${key}=${value}`).join(' ');

/** @type {WeakMap<Run, string>} */
const texts = new WeakMap();

/**
 * The runs that match a regular expression; all runs if the text is not one.
 * @param {Run[]} runs
 * @param {string} text
 */
export function filtered(runs, text) {
  const wanted = text ? pattern(text) : null;
  if (!wanted) return runs;
  return runs.filter((run) => {
    let found = texts.get(run);
    if (found === undefined) texts.set(run, (found = searchText(run)));
    return wanted.test(found);
  });
}

const order = new Intl.Collator('en', {numeric: true}).compare;

/**
 * Runs in the order of a column; runs that lack it come last in both directions.
 * @param {Run[]} runs
 * @param {string} column
 * @param {boolean} descending
 */
export function sortedBy(runs, column, descending) {
  const keyed = runs.map((run) => ({run, key: cellOf(run, column)}));
  const sign = descending ? -1 : 1;
  keyed.sort((x, y) => {
    if (x.key === null || y.key === null) return Number(x.key === null) - Number(y.key === null);
    if (typeof x.key === 'number' && typeof y.key === 'number') return sign * (x.key - y.key);
    return sign * order(String(x.key), String(y.key));
  });
  return keyed.map(({run}) => run);
}

/**
 * Runs by what they have in a column; groups are in the order of the means of a value, or else of
 * their names.
 * @param {Run[]} runs
 * @param {string} column
 * @param {string} by
 * @param {boolean} descending
 * @returns {[string, Run[]][]}
 */
export function groupedBy(runs, column, by, descending) {
  /** @type {Map<string, Run[]>} */
  const groups = new Map();
  for (const run of runs) {
    const key = String(cellOf(run, column) ?? '–');
    const members = groups.get(key);
    if (members) members.push(run);
    else groups.set(key, [run]);
  }
  const sign = descending ? -1 : 1;
  const keyed = [...groups].map(([name, members]) => ({name, members, mean: meanOf(members, by)?.mean ?? null}));
  keyed.sort((x, y) => {
    if (x.mean === null || y.mean === null) return Number(x.mean === null) - Number(y.mean === null) || sign * order(x.name, y.name);
    return sign * (x.mean - y.mean);
  });
  return keyed.map(({name, members}) => [name, members]);
}

/**
 * Mean and standard deviation over runs of a value; null where no run has it.
 * @param {Run[]} runs
 * @param {string} column
 */
export function meanOf(runs, column) {
  const values = runs.map((run) => run.values[column]?.[0]).filter((x) => x !== undefined);
  if (!values.length) return null;
  const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
  const square = values.reduce((sum, x) => sum + (x - mean) ** 2, 0);
  return {mean, sd: values.length > 1 ? Math.sqrt(square / (values.length - 1)) : null, n: values.length};
}
