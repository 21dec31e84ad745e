// The state of the page as signals, and its form in the address, so that a link shows the same view.

import {batch, computed, signal} from '@preact/signals-core';
import {samePlace} from './geometry.js';
import {decodeImage} from './decoding.js';
/** @import {Contents, Model} from './types.js' */
/** @import {Layer} from './decoding.js' */

/** @typedef {'explorer' | 'heads' | 'runs'} View */
/** @typedef {'attention' | 'rollout' | 'similarity' | 'pca' | 'position'} Mode */
/** @typedef {{prefix: number} | {patch: number}} Token patch: of the first layer of model a */

export const VIEWS = /** @type {View[]} */ (['explorer', 'heads', 'runs']);
export const NARROWEST = 0.5; // patches: the least width of an added Gaussian
export const MODES = /** @type {Mode[]} */ (['attention', 'rollout', 'similarity', 'pca', 'position']);

/** @type {import('@preact/signals-core').Signal<Contents>} */
export const contents = signal(/** @type {any} */ (null));
export const models = computed(() => contents.value.models);

export const view = signal(/** @type {View} */ ('explorer'));
/** numbers of the models that are shown; b is null when one is shown alone */
export const a = signal(0);
export const b = signal(/** @type {number | null} */ (null));
export const image = signal(0);
export const layer = signal(0);
export const head = signal(0);
export const token = signal(/** @type {Token} */ ({patch: 0}));
export const pinned = signal(false);
export const incoming = signal(false);
export const shift = signal(false);
export const mode = signal(/** @type {Mode} */ ('attention'));
/** of the Gaussian added to all logits, in patches; null for none */
export const width = signal(/** @type {number | null} */ (null));
/** whether all heads are drawn on the same scale */
export const alike = signal(false);
/** number of the look while training; null for the end */
export const look = signal(/** @type {number | null} */ (null));

/** Attention that a patch gets instead of gives; holding shift turns the switch around. */
export const isIncoming = computed(() => incoming.value !== shift.value);

/** The prefix token that is chosen, or null: unlike the token it does not change while hovering. */
export const chosenPrefix = computed(() => ('prefix' in token.value ? token.value.prefix : null));

/** The models on show that have attention to explore. */
export const shown = computed(() => {
  const chosen = b.value === null ? [a.value] : [a.value, b.value];
  return chosen.map((index) => models.value[index]).filter((model) => model?.examples);
});

/** @type {WeakMap<object, Map<number, Promise<Layer[]>>>} */
const decoding = new WeakMap();

/**
 * The layers of an image, decoded when they are first asked for.
 * @param {Model} model
 * @param {number} index
 */
export function layersOf(model, index) {
  const examples = /** @type {NonNullable<Model['examples']>} */ (model.examples);
  let known = decoding.get(examples);
  if (!known) decoding.set(examples, (known = new Map()));
  const number = Math.min(index, examples.images.length - 1);
  let found = known.get(number);
  if (!found) known.set(number, (found = decodeImage(examples, number)));
  return found;
}

/** How many images all models on show have. */
export const numImages = computed(() =>
  Math.max(1, Math.min(...shown.value.map((model) => model.examples?.images.length ?? 0))));

/** The grid that patches are counted on: that of the first layer of the first model on show. */
export const baseGrid = computed(() =>
  shown.value[0]?.examples?.layers[0].grid ?? /** @type {[number, number]} */ ([1, 1]));

/** Choose the patch in the middle. */
export function chooseMiddle() {
  const [rows, cols] = baseGrid.value;
  token.value = {patch: Math.floor(rows / 2) * cols + Math.floor(cols / 2)};
}

/**
 * The number of the chosen token among the queries of a layer, or null where it takes no part.
 * @param {import('./types.js').Places} places
 * @param {number} numPrefix of the model: prefix tokens that a layer lacks are the first ones
 * @returns {number | null}
 */
export function queryOf(places, numPrefix) {
  const chosen = token.value;
  if ('patch' in chosen) {
    return places.query_prefix + samePlace(chosen.patch, baseGrid.value, places.grid);
  }
  const query = chosen.prefix - (numPrefix - places.query_prefix);
  return query >= 0 && query < places.query_prefix ? query : null;
}

/**
 * Whether the page has anything to show in a view.
 * @param {View} of
 */
export function hasView(of) {
  const {runs, studies} = contents.value;
  if (of === 'explorer') return models.value.length > 0;
  if (of === 'heads') return models.value.some(({numbers, looks}) => numbers || looks.length);
  return runs.length + studies.length > 0;
}

/** Keep the view, layer, head, image and patch within what is there. */
export function settle() {
  if (!hasView(view.value)) view.value = VIEWS.find(hasView) ?? 'explorer';
  const first = shown.value[0]?.examples;
  if (!first) return;
  const within = (/** @type {number} */ value, /** @type {number} */ count) => Math.max(0, Math.min(value, count - 1));
  batch(() => {
    image.value = within(image.value, numImages.value);
    layer.value = within(layer.value, first.layers.length);
    head.value = within(head.value, first.layers[layer.value].num_heads);
    const [rows, cols] = baseGrid.value;
    const chosen = token.value;
    if ('patch' in chosen && chosen.patch >= rows * cols) token.value = {patch: 0};
    if ('prefix' in chosen && chosen.prefix >= first.prefix_names.length) token.value = {patch: 0};
  });
}

/**
 * A signal that the address holds. A view is the same for everybody who follows its link, so
 * whatever the address does not say has its initial value.
 * @template T
 * @typedef {object} Held
 * @property {import('@preact/signals-core').Signal<T>} signal
 * @property {T} initial
 * @property {(value: T) => string} text
 * @property {(text: string) => T | undefined} value undefined where the text means nothing
 * @property {boolean} always whether it stands in the address at its initial value too
 */

/** @type {Map<string, Held<any>>} */
const held = new Map();

/**
 * Keep a signal in the address.
 * @template T
 * @param {string} key
 * @param {import('@preact/signals-core').Signal<T>} signal
 * @param {(text: string) => T | undefined} value
 * @param {(value: T) => string} [text]
 * @param {boolean} [always]
 */
export function hold(key, signal, value, text = String, always = false) {
  held.set(key, {signal, initial: signal.peek(), text, value, always});
}

/** Make the values of now the initial ones: what a page starts with depends on its contents. */
export function startHere() {
  for (const each of held.values()) each.initial = each.signal.peek();
}

/** @param {string} text */
export const asCount = (text) => (/^\d{1,6}$/.test(text) ? Number(text) : undefined);
/**
 * One of some words, or nothing.
 * @template {string} T
 * @param {readonly T[]} words
 * @returns {(text: string) => T | undefined}
 */
export const asWord = (words) => (text) => words.find((word) => word === text);
export const asFlag = (/** @type {string} */ text) => text === '1';
export const flagText = (/** @type {boolean} */ value) => (value ? '1' : '0');

const named = (/** @type {string} */ text) => {
  const found = models.value.findIndex((model) => model.name === text);
  return found < 0 ? undefined : found;
};
const nameOf = (/** @type {number | null} */ index) => models.value[index ?? -1]?.name ?? '';
const fromOne = (/** @type {string} */ text) => {
  const count = asCount(text);
  return count ? count - 1 : undefined;
};
const plusOne = (/** @type {number} */ index) => String(index + 1);

hold('v', view, asWord(VIEWS));
hold('a', a, named, nameOf, true);
hold('b', b, (text) => (text ? named(text) : null), nameOf);
hold('i', image, fromOne, plusOne);
hold('l', layer, fromOne, plusOne, true);
hold('h', head, fromOne, plusOne, true);
hold('p', token, (text) => {
  const [, prefix, count] = /^(t?)(\d{1,6})$/.exec(text) ?? [];
  return count === undefined ? undefined : prefix ? {prefix: Number(count)} : {patch: Number(count)};
}, (chosen) => ('patch' in chosen ? String(chosen.patch) : `t${chosen.prefix}`), true);
hold('pin', pinned, asFlag, flagText);
hold('d', incoming, (text) => text === 'in', (value) => (value ? 'in' : 'out'));
hold('m', mode, asWord(MODES));
hold('w', width, (text) => (Number(text) >= NARROWEST && Number(text) <= 1000 ? Number(text) : undefined));
hold('s', alike, asFlag, flagText);
hold('e', look, asCount);

/** The address of the view, without #. */
export const address = computed(() => {
  const parts = new URLSearchParams();
  for (const [key, {signal: {value}, initial, text, always}] of held) {
    if ((always && text(value)) || text(value) !== text(initial)) parts.set(key, text(value));
  }
  return parts.toString();
});

/**
 * Take over the view that an address holds.
 * @param {string} hash
 */
export function readAddress(hash) {
  const parts = new URLSearchParams(hash.replace(/^#/, ''));
  batch(() => {
    for (const [key, {signal, initial, value}] of held) {
      const text = parts.get(key);
      const found = text === null ? undefined : value(text);
      signal.value = found === undefined ? initial : found;
    }
  });
  settle();
}
