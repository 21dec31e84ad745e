// Learning curves of runs, drawn by uPlot.

import uPlot from 'uplot';
import {protocolInks} from './colour.js';
import {metricName} from './words.js';
/** @import {Run} from './types.js' */

/** @typedef {'train_loss' | 'validation_accuracy' | 'min_mad'} Curve */
export const CURVES = /** @type {Curve[]} */ (['validation_accuracy', 'train_loss', 'min_mad']);
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];

/**
 * The curves of runs over the same epochs: null where a run has no number.
 * @param {Run[]} runs
 * @param {Curve} curve
 * @returns {(number | null)[][]} epochs first
 */
export function aligned(runs, curve) {
  const epochs = [...new Set(runs.flatMap((run) => run.curve?.epoch ?? []))].sort((x, y) => x - y);
  return [epochs, ...runs.map((run) => {
    const known = new Map(run.curve?.epoch.map((epoch, at) => [epoch, run.curve?.[curve][at] ?? null]));
    return epochs.map((epoch) => known.get(epoch) ?? null);
  })];
}

/**
 * Draw the curves of runs into an element, which is emptied first.
 * @param {HTMLElement} place
 * @param {Run[]} runs
 * @param {Curve} curve
 * @returns {uPlot | null}
 */
export function drawCurves(place, runs, curve) {
  place.replaceChildren();
  const shown = runs.filter((run) => run.curve?.[curve].some((x) => x !== null));
  if (!shown.length) {
    place.textContent = `None of these runs has ${metricName(curve)} over epochs.`;
    return null;
  }
  const style = getComputedStyle(place);
  const ink = style.getPropertyValue('--text'), rule = style.getPropertyValue('--rule');
  const inks = protocolInks([...new Set(shown.map((run) => run.protocol))]);
  const short = shown.map((run) => `${run.protocol}, seed ${run.seed}`);
  const apart = new Set(short).size === shown.length && shown.every((run) => run.seed !== null);
  /** @type {Map<string, number>} */
  const seen = new Map();
  const series = shown.map((run, at) => {
    const turn = seen.get(run.protocol) ?? 0;
    seen.set(run.protocol, turn + 1);
    return {
      label: apart ? short[at] : run.name, stroke: inks.get(run.protocol), width: 1.5, spanGaps: true,
      dash: DASHES[turn % DASHES.length], points: {show: curve === 'min_mad'},
    };
  });
  const axis = {stroke: ink, grid: {stroke: rule, width: 1}, ticks: {stroke: rule, width: 1}};
  return new uPlot({
    width: Math.max(280, Math.min(860, place.clientWidth)), height: 300,
    scales: {x: {time: false}},
    axes: [{...axis, label: 'epoch'}, {...axis, label: metricName(curve), size: 64}],
    series: [{label: 'epoch'}, ...series],
    legend: {live: shown.length <= 8},
  }, /** @type {any} */ (aligned(shown, curve)), place);
}
