// Numbers and places in words.

import {contents} from './state.js';

/** @param {number} value */
export const number = (value) => value.toFixed(3).replace('-', '−');

/** @param {number} share */
export const percent = (share) => `${(100 * share).toFixed(1)} %`;

/**
 * A number with its interval, where it has one.
 * @param {number[]} estimate value, low, high
 * @param {(value: number) => string} [text]
 */
export const interval = ([value, low, high], text = number) =>
  low === undefined || high === undefined ? text(value) : `${text(value)} (${text(low)} to ${text(high)})`;

/**
 * A patch by its row and column, counted from 1.
 * @param {number} patch
 * @param {number} cols
 */
export const place = (patch, cols) => `row ${Math.floor(patch / cols) + 1}, column ${(patch % cols) + 1}`;

/**
 * What a metric or a number of a run is called in tables.
 * @param {string} name
 */
export const metricName = (name) =>
  contents.value.metrics[name]?.label ?? headingOf(name);

/**
 * What a column of the table of runs is called.
 * @param {string} name
 */
export const headingOf = (name) =>
  contents.value.columns.find((column) => column.name === name)?.heading ?? name.replace('settings.', '').replaceAll('_', ' ');

/**
 * @param {number} count
 * @param {string} noun
 */
export const counted = (count, noun) => `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
