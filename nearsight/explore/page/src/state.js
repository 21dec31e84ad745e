// The state of the page as signals, and its form in the address, so that a link shows the same view.

import {batch, computed, signal} from '@preact/signals-core';
import {samePlace} from './geometry.js';
import {decodeImage} from './decoding.js';
/** @import {Contents, Model} from './types.js' */
/** @import {Layer} from './decoding.js' */

/** @typedef {'explorer' | 'heads' | 'runs'} View */
/** @typedef {'attention' | 'rollout' | 'similarity' | 'pca' | 'position'} Mode */
/** @typedef {{prefix: number} | {patch: number}} Token patch: of the first layer of model a */

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

/** Keep layer, head, image and patch within what is there. */
export function settle() {
  const first = shown.value[0]?.examples;
  if (!first) return;
  batch(() => {
    image.value = Math.min(image.value, numImages.value - 1);
    layer.value = Math.max(0, Math.min(layer.value, first.layers.length - 1));
    head.value = Math.max(0, Math.min(head.value, first.layers[layer.value].num_heads - 1));
    const [rows, cols] = baseGrid.value;
    const chosen = token.value;
    if ('patch' in chosen && chosen.patch >= rows * cols) token.value = {patch: 0};
    if ('prefix' in chosen && chosen.prefix >= first.prefix_names.length) token.value = {patch: 0};
  });
}

/** The address of the view, without #. */
export const address = computed(() => {
  const parts = new URLSearchParams();
  if (view.value !== 'explorer') parts.set('v', view.value);
  if (models.value.length) parts.set('a', models.value[a.value]?.name ?? '');
  if (b.value !== null) parts.set('b', models.value[b.value].name);
  if (image.value) parts.set('i', String(image.value + 1));
  parts.set('l', String(layer.value + 1));
  parts.set('h', String(head.value + 1));
  const chosen = token.value;
  parts.set('p', 'patch' in chosen ? String(chosen.patch) : `t${chosen.prefix}`);
  if (pinned.value) parts.set('pin', '1');
  if (incoming.value) parts.set('d', 'in');
  if (mode.value !== 'attention') parts.set('m', mode.value);
  if (width.value !== null) parts.set('w', String(width.value));
  if (look.value !== null) parts.set('e', String(look.value));
  return parts.toString();
});

/**
 * Take over the view that an address holds; what it does not say stays as it is.
 * @param {string} hash
 */
export function readAddress(hash) {
  const parts = new URLSearchParams(hash.replace(/^#/, ''));
  /** @param {string} key */
  const number = (key) => {
    const value = Number(parts.get(key));
    return parts.get(key) && Number.isInteger(value) && value >= 0 ? value : null;
  };
  /** @param {string} key */
  const named = (key) => models.value.findIndex((model) => model.name === parts.get(key));
  batch(() => {
    const asked = parts.get('v');
    if (asked === 'heads' || asked === 'runs' || asked === 'explorer') view.value = asked;
    if (named('a') >= 0) a.value = named('a');
    if (named('b') >= 0) b.value = named('b');
    image.value = (number('i') ?? image.value + 1) - 1;
    layer.value = (number('l') ?? layer.value + 1) - 1;
    head.value = (number('h') ?? head.value + 1) - 1;
    const patch = number('p');
    const prefix = /^t(\d+)$/.exec(parts.get('p') ?? '');
    if (patch !== null) token.value = {patch};
    if (prefix) token.value = {prefix: Number(prefix[1])};
    pinned.value = parts.get('pin') === '1';
    incoming.value = parts.get('d') === 'in';
    const found = MODES.find((each) => each === parts.get('m'));
    if (found) mode.value = found;
    const asWidth = Number(parts.get('w'));
    if (parts.get('w') && asWidth >= 0.1 && asWidth <= 1000) width.value = asWidth;
    if (number('e') !== null) look.value = number('e');
  });
  settle();
}
