// A linear scale with round ticks.

/**
 * @typedef {object} Scale
 * @property {(value: number) => number} at place of a value
 * @property {(place: number) => number} value value of a place
 * @property {(count: number) => number[]} ticks about so many round values
 */

/** @param {number} span @param {number} count */
function roundStep(span, count) {
  const rough = span / count, power = 10 ** Math.floor(Math.log10(rough));
  const factor = rough / power;
  return power * (factor >= 7.07 ? 10 : factor >= 3.16 ? 5 : factor >= 1.41 ? 2 : 1);
}

/**
 * @param {[number, number]} domain
 * @param {[number, number]} range
 * @param {number} [nice] widen the domain to round values, about so many
 * @returns {Scale}
 */
export function linear([low, high], [from, to], nice) {
  if (low === high) high = low + 1;
  if (nice) {
    const step = roundStep(high - low, nice);
    [low, high] = [Math.floor(low / step) * step, Math.ceil(high / step) * step];
  }
  const slope = (to - from) / (high - low);
  return {
    at: (value) => from + (value - low) * slope,
    value: (place) => low + (place - from) / slope,
    ticks: (count) => {
      const step = roundStep(high - low, count), first = Math.ceil(low / step - 1e-9);
      const number = Math.floor(high / step + 1e-9) - first + 1;
      return Array.from({length: number}, (_, i) => Number(((first + i) * step).toPrecision(12)));
    },
  };
}
