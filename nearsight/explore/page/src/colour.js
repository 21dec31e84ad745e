// Colours from the palette that the figures of the report use too.

import palette from '../../../report/templates/palette.json';

/** [red, green, blue] of 256 steps */
const VIRIDIS = Uint8Array.from({length: 3 * 256}, (_, i) =>
  parseInt(palette.viridis.slice(2 * i, 2 * i + 2), 16));

/** The same packed for a Uint32Array over the pixels of a canvas (all browsers are little-endian). */
const PACKED = Uint32Array.from({length: 256}, (_, step) =>
  packed(VIRIDIS[3 * step], VIRIDIS[3 * step + 1], VIRIDIS[3 * step + 2]));

/**
 * @param {number} red 0 to 255, as are the others
 * @param {number} green
 * @param {number} blue
 */
export function packed(red, green, blue) {
  return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
}

/** @param {number} share */
const stepOf = (share) => (share >= 1 ? 255 : share > 0 ? Math.floor(share * 256) : 0);

/**
 * The packed colour of a share between 0 and 1.
 * @param {number} share
 */
export const viridisPacked = (share) => PACKED[stepOf(share)];

/** @param {number} share */
export function viridis(share) {
  const step = 3 * stepOf(share);
  return `rgb(${VIRIDIS[step]},${VIRIDIS[step + 1]},${VIRIDIS[step + 2]})`;
}

/**
 * The colour of a layer: viridis, the first darkest; the palest end vanishes on white.
 * @param {number} layer
 * @param {number} numLayers
 */
export const layerColour = (layer, numLayers) =>
  viridis((0.9 * layer) / Math.max(1, numLayers - 1));

/**
 * Whether text on this colour of viridis should be white.
 * @param {number} share
 */
export const isDark = (share) => share < 0.45;

/**
 * The packed colour of a place of the image: rows from dark to light, columns from blue to orange.
 * @param {number} down share of the height
 * @param {number} right share of the width
 */
export function placePacked(down, right) {
  const light = 255 * (0.35 + 0.65 * down);
  return packed(light * (0.1 + 0.85 * right), light * (0.5 + 0.12 * right), light * (0.95 - 0.85 * right));
}

const INKS = /** @type {Record<string, {light: string, dark: string}>} */ (palette.inks);
const CONDITIONS = /** @type {Record<string, string>} */ (palette.conditions);

/** Whether the page is dark. */
export const isNight = () => matchMedia('(prefers-color-scheme: dark)').matches;

/**
 * The inks of some protocols: each its own, others what is left.
 * @param {string[]} protocols
 * @returns {Map<string, string>}
 */
export function protocolInks(protocols) {
  const theme = isNight() ? 'dark' : 'light';
  const taken = new Set(protocols.map((name) => CONDITIONS[name]).filter(Boolean));
  const free = palette.others.filter((name) => !taken.has(name));
  let turn = 0;
  return new Map(protocols.map((name) => {
    const ink = CONDITIONS[name] ?? (free.length ? free : palette.others)[turn++ % (free.length || palette.others.length)];
    return [name, INKS[ink][theme]];
  }));
}
