// The maps of one image that the explorer shows: of every head, or of every layer.

import {columnOf, headMean, meanPlaces, rollout, rowOf, canRollOut} from './attention.js';
import {similarity} from './decoding.js';
import {samePlace} from './geometry.js';
import {featureTiles, heatTiles, placeTiles, translucent} from './painting.js';
import * as state from './state.js';
/** @import {Layer} from './decoding.js' */
/** @import {Tiles} from './painting.js' */

/**
 * The numbers of one map: over cells (where a token attends) or patches (which attend to it).
 * @typedef {object} Weights
 * @property {Float32Array} weights on the image
 * @property {number} rows
 * @property {number} cols
 * @property {Float32Array} prefix on prefix tokens
 */

/** The attention of one model on one image, with what was computed from it. */
export class Scene {
  /**
   * @param {Layer[]} layers
   * @param {number} numPrefix
   */
  constructor(layers, numPrefix) {
    this.layers = layers;
    this.numPrefix = numPrefix;
    this.canRollOut = canRollOut(layers);
    this.hasFeatures = layers.some(({places}) => places.feature_prefix !== null);
    /** @type {Map<string, Float32Array>} */
    this.places = new Map();
    /** @type {{width: number | null, means: Float32Array[]} | null} */
    this.means = null;
  }

  /**
   * Where the chosen token attends in a head, or which patches attend to it.
   * @param {number} index of the layer
   * @param {number} head
   * @param {boolean} isIncoming
   * @param {number | null} width
   * @returns {Weights | null} null where the token takes no part in the layer
   */
  weights(index, head, isIncoming, width) {
    const layer = this.layers[index], {places, geometry} = layer;
    const query = state.queryOf(places, this.numPrefix);
    if (query === null) return null;
    if (!isIncoming) {
      const row = rowOf(layer, head, query, width);
      return {
        weights: row.subarray(places.key_prefix), prefix: row.subarray(0, places.key_prefix),
        rows: geometry.keyRows, cols: geometry.keyCols,
      };
    }
    const patch = query - places.query_prefix;
    if (patch < 0 && query >= places.key_prefix) return null;
    const key = patch < 0 ? query : places.key_prefix + geometry.own[patch];
    return {
      weights: columnOf(layer, head, key, width), prefix: new Float32Array(),
      rows: geometry.rows, cols: geometry.cols,
    };
  }

  /**
   * Attention followed from the output of a layer back to the input.
   * @param {number} index
   * @param {number | null} width
   * @returns {Weights | null}
   */
  rolledOut(index, width) {
    if (!this.canRollOut) return null;
    if (this.means === null || this.means.width !== width) {
      this.means = {width, means: this.layers.map((layer) => headMean(layer, width))};
    }
    const first = this.layers[0].geometry;
    const chosen = state.token.value;
    const start = 'prefix' in chosen ? chosen.prefix : this.numPrefix +
      samePlace(chosen.patch, state.baseGrid.value, [first.rows, first.cols]);
    const share = rollout(this.means.means, this.layers, index, start);
    return {
      weights: share.subarray(this.numPrefix), prefix: share.subarray(0, this.numPrefix),
      rows: first.rows, cols: first.cols,
    };
  }

  /**
   * Cosine of the features of the chosen token with those of all patches.
   * @param {number} index
   * @returns {Weights | null}
   */
  similar(index) {
    const {places, geometry} = this.layers[index];
    if (places.feature_prefix === null) return null;
    const chosen = state.token.value;
    const feature = 'prefix' in chosen
      ? chosen.prefix - (this.numPrefix - places.feature_prefix)
      : places.feature_prefix + samePlace(chosen.patch, state.baseGrid.value, places.grid);
    const found = feature < 0 ? null : similarity(this.layers[index], feature);
    return found && {weights: found, prefix: new Float32Array(), rows: geometry.rows, cols: geometry.cols};
  }

  /**
   * Every patch in the colour of the mean place that it attends to.
   * @param {number} index
   * @param {number} head
   * @param {number | null} width
   * @returns {Tiles}
   */
  byPlace(index, head, width) {
    const key = `${index} ${head} ${width}`;
    let found = this.places.get(key);
    if (!found) {
      if (this.places.size > 4096) this.places.clear();
      this.places.set(key, (found = meanPlaces(this.layers[index], head, width)));
    }
    return placeTiles(found, this.layers[index].geometry.rows, this.layers[index].geometry.cols);
  }

  /**
   * The numbers that a mode shows of a head or layer; null where it shows none, or colours.
   * @param {number} index
   * @param {number} head
   * @returns {Weights | null}
   */
  shown(index, head) {
    const width = state.width.value;
    switch (state.mode.value) {
      case 'attention': return this.weights(index, head, state.isIncoming.value, width);
      case 'rollout': return this.rolledOut(index, width);
      case 'similarity': return this.similar(index);
      default: return null;
    }
  }

  /**
   * The map of a head or layer as colours, in the mode that is chosen.
   * @param {number} index
   * @param {number} head
   * @param {object} [how]
   * @param {number} [how.top] weight drawn brightest; by default the largest of the map
   * @param {boolean} [how.over] whether it lies over an image, which is to be seen through it
   * @returns {Tiles | null}
   */
  tiles(index, head, {top, over = false} = {}) {
    if (state.mode.value === 'position') return this.byPlace(index, head, state.width.value);
    if (state.mode.value === 'pca') {
      const {places} = this.layers[index];
      return places.feature_prefix === null ? null : featureTiles(this.layers[index]);
    }
    const found = this.shown(index, head);
    if (!found) return null;
    const high = state.mode.value === 'similarity' ? 1 : top ?? highest(found.weights);
    const tiles = heatTiles(found.weights, found.rows, found.cols, 0, high);
    return over ? translucent(tiles, found.weights, high) : tiles;
  }
}

/** @param {Float32Array} weights */
export function highest(weights) {
  let found = 0;
  for (let at = 0; at < weights.length; at++) if (weights[at] > found) found = weights[at];
  return found;
}

/** Whether a mode has one map per layer instead of one per head. */
export const isPerLayer = () =>
  state.mode.value === 'rollout' || state.mode.value === 'similarity' || state.mode.value === 'pca';
