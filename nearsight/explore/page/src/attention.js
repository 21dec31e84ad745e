// Compute rows and columns of attention, metrics of heads, and rollout from the companded rows.
//
// If a Gaussian of some width is added to the logits of patches, a row A becomes
// normalise(A * exp(b)) with b = -d^2 / (2 width^2) on patches and b = 0 on prefix tokens. Rows of
// prefix tokens stay as they are.

import {SHARES} from './decoding.js';
/** @import {Layer} from './decoding.js' */
/** @import {Naming} from './types.js' */

/**
 * One row: where a token attends. Keys are prefix tokens and then cells.
 * @param {Layer} layer
 * @param {number} head
 * @param {number} query prefix tokens first
 * @param {number | null} width of an added Gaussian, in patches
 * @param {Float32Array} [into]
 */
export function rowOf(layer, head, query, width, into) {
  const {places, geometry, numQueries} = layer;
  const numPrefix = places.key_prefix, numCells = geometry.numCells;
  const row = into ?? new Float32Array(numPrefix + numCells);
  const at = head * numQueries + query, codes = at * numCells;
  for (let key = 0; key < numPrefix; key++) row[key] = layer.prefix[at * numPrefix + key];
  const near = layer.scales[3 * at], middle = layer.scales[3 * at + 1], far = layer.scales[3 * at + 2];
  const patch = query - places.query_prefix;
  if (patch < 0) {
    for (let cell = 0; cell < numCells; cell++) {
      row[numPrefix + cell] = far * SHARES[layer.codes[codes + cell]];
    }
    return row;
  }
  const numbers = geometry.number, first = patch * numCells;
  for (let cell = 0; cell < numCells; cell++) {
    const number = numbers[first + cell];
    const scale = number === 0 ? near : number === 1 ? middle : far;
    row[numPrefix + cell] = scale * SHARES[layer.codes[codes + cell]];
  }
  const factors = geometry.factors(width);
  if (factors) {
    let total = 0;
    for (let key = 0; key < numPrefix; key++) total += row[key];
    for (let cell = 0; cell < numCells; cell++) {
      total += row[numPrefix + cell] *= factors[first + cell];
    }
    if (total > 0) for (let key = 0; key < row.length; key++) row[key] /= total;
  }
  return row;
}

/**
 * One column: how much every patch attends to a token.
 * @param {Layer} layer
 * @param {number} head
 * @param {number} key prefix tokens first, then cells
 * @param {number | null} width
 */
export function columnOf(layer, head, key, width) {
  const {places, geometry, numQueries} = layer;
  const numPrefix = places.key_prefix, numCells = geometry.numCells;
  const column = new Float32Array(geometry.numPatches);
  const row = width === null ? null : new Float32Array(numPrefix + numCells);
  for (let patch = 0; patch < column.length; patch++) {
    const query = places.query_prefix + patch;
    if (row) {
      column[patch] = rowOf(layer, head, query, width, row)[key];
      continue;
    }
    const at = head * numQueries + query;
    if (key < numPrefix) {
      column[patch] = layer.prefix[at * numPrefix + key];
    } else {
      const cell = key - numPrefix;
      const scale = layer.scales[3 * at + geometry.number[patch * numCells + cell]];
      column[patch] = scale * SHARES[layer.codes[at * numCells + cell]];
    }
  }
  return column;
}

/**
 * The metrics of one head, without prefix tokens and with rows renormalised, as in Python.
 * @typedef {object} HeadMetrics
 * @property {number} mad in grid diagonals
 * @property {number} entropy divided by log N
 * @property {number} self_mass
 * @property {number} sink share of prefix tokens
 * @property {number} near share of the 3x3 box
 * @property {[number, number]} offset mean, down and right, in patches
 * @property {number} spread of offsets, in patches
 * @property {number} score 0: as far as uniform attention, 1: only the own patch
 */

/**
 * @param {Layer} layer
 * @param {number} head
 * @param {number | null} width
 * @returns {HeadMetrics}
 */
export function headMetrics(layer, head, width) {
  const {places, geometry} = layer;
  const {numCells, numPatches} = geometry, numPrefix = places.key_prefix;
  const row = new Float32Array(numPrefix + numCells);
  let far = 0, entropy = 0, self = 0, sink = 0, near = 0, down = 0, right = 0, square = 0;
  for (let patch = 0; patch < numPatches; patch++) {
    rowOf(layer, head, places.query_prefix + patch, width, row);
    let onPrefix = 0, total = 0, logs = 0;
    let sumFar = 0, sumNear = 0, sumDown = 0, sumRight = 0, sumSquare = 0;
    for (let key = 0; key < numPrefix; key++) onPrefix += row[key];
    const first = patch * numCells;
    for (let cell = 0; cell < numCells; cell++) {
      const weight = row[numPrefix + cell];
      if (weight === 0) continue;
      const distance = geometry.distance[first + cell];
      total += weight;
      logs += weight * Math.log(weight);
      sumFar += weight * distance;
      sumSquare += weight * distance * distance;
      sumDown += weight * geometry.down[first + cell];
      sumRight += weight * geometry.right[first + cell];
      if (geometry.number[first + cell] === 0) sumNear += weight;
    }
    sink += onPrefix / (onPrefix + total || 1);
    if (total === 0) continue;
    far += sumFar / total;
    square += sumSquare / total;
    down += sumDown / total;
    right += sumRight / total;
    near += sumNear / total;
    self += row[numPrefix + geometry.own[patch]] / total;
    entropy += Math.log(total) - logs / total;
  }
  const n = numPatches;
  const variance = square / n - (down / n) ** 2 - (right / n) ** 2;
  return {
    mad: far / n / geometry.diagonal,
    entropy: entropy / n / Math.log(places.num_keys),
    self_mass: self / n,
    sink: sink / n,
    near: near / n,
    offset: [down / n, right / n],
    spread: Math.sqrt(Math.max(0, variance)),
    score: geometry.uniform ? 1 - far / n / geometry.uniform : 0,
  };
}

/**
 * What a head does on one image, in one word, by the thresholds of head_names.py.
 * @param {HeadMetrics} head
 * @param {Naming} naming
 */
export function headName(head, naming) {
  if (head.sink >= naming.mostly) return 'sink';
  if (head.self_mass >= naming.mostly) return 'identity';
  const shifted = Math.hypot(...head.offset) <= naming.max_shift && head.spread <= naming.max_spread;
  if (head.score > naming.far && (head.near >= naming.mostly || shifted)) return 'local';
  return head.score <= naming.far ? 'global' : 'mixed';
}

/**
 * Where patches attend relative to themselves, averaged over patches; sums to the share on patches.
 * It is null unless keys are patches.
 * @param {Layer} layer
 * @param {number} head
 * @param {number | null} width
 * @returns {{rows: number, cols: number, weights: Float32Array} | null}
 */
export function offsetMap(layer, head, width) {
  const {places, geometry} = layer;
  if (geometry.numCells !== geometry.numPatches) return null;
  const rows = 2 * geometry.rows - 1, cols = 2 * geometry.cols - 1;
  const weights = new Float32Array(rows * cols);
  const row = new Float32Array(places.key_prefix + geometry.numCells);
  for (let patch = 0, at = 0; patch < geometry.numPatches; patch++) {
    rowOf(layer, head, places.query_prefix + patch, width, row);
    for (let cell = 0; cell < geometry.numCells; cell++, at++) {
      const down = geometry.rows - 1 + geometry.down[at];
      const right = geometry.cols - 1 + geometry.right[at];
      weights[down * cols + right] += row[places.key_prefix + cell] / geometry.numPatches;
    }
  }
  return {rows, cols, weights};
}

/**
 * The mean place that every patch attends to, as shares of the image's height and width.
 * @param {Layer} layer
 * @param {number} head
 * @param {number | null} width
 * @returns {Float32Array} [patch, 2]: down, right
 */
export function meanPlaces(layer, head, width) {
  const {places, geometry} = layer;
  const found = new Float32Array(2 * geometry.numPatches);
  const row = new Float32Array(places.key_prefix + geometry.numCells);
  const height = Math.max(1, geometry.rows - 1), breadth = Math.max(1, geometry.cols - 1);
  for (let patch = 0, at = 0; patch < geometry.numPatches; patch++) {
    rowOf(layer, head, places.query_prefix + patch, width, row);
    let total = 0, down = 0, right = 0;
    for (let cell = 0; cell < geometry.numCells; cell++, at++) {
      const weight = row[places.key_prefix + cell];
      total += weight;
      down += weight * geometry.down[at];
      right += weight * geometry.right[at];
    }
    found[2 * patch] = (Math.floor(patch / geometry.cols) + down / (total || 1)) / height;
    found[2 * patch + 1] = ((patch % geometry.cols) + right / (total || 1)) / breadth;
  }
  return found;
}

/**
 * The mean over the heads of a layer, [query, key].
 * @param {Layer} layer
 * @param {number | null} width
 */
export function headMean(layer, width) {
  const {places, geometry, numQueries} = layer;
  const numKeys = places.key_prefix + geometry.numCells;
  const mean = new Float32Array(numQueries * numKeys);
  const row = new Float32Array(numKeys);
  for (let head = 0; head < places.num_heads; head++) {
    for (let query = 0; query < numQueries; query++) {
      rowOf(layer, head, query, width, row);
      for (let key = 0; key < numKeys; key++) {
        mean[query * numKeys + key] += row[key] / places.num_heads;
      }
    }
  }
  return mean;
}

/**
 * Whether attention can be followed through the layers: all between the same patches.
 * @param {Layer[]} layers
 */
export function canRollOut(layers) {
  const first = layers[0].geometry;
  return layers.every(({geometry, places}) =>
    geometry === first && geometry.numCells === geometry.numPatches &&
    places.key_prefix === places.query_prefix);
}

/**
 * Attention rollout (Abnar & Zuidema 2020): follow a token from the output of layer ``last`` back to
 * the input, through (mean over heads + identity) / 2 of every layer.
 * A prefix token that takes no part in a layer stays as it is there.
 * @param {Float32Array[]} means of ``headMean``, layer by layer
 * @param {Layer[]} layers
 * @param {number} last
 * @param {number} token prefix tokens first, of the layer with most of them
 * @returns {Float32Array} over prefix tokens and patches
 */
export function rollout(means, layers, last, token) {
  const numPatches = layers[0].geometry.numPatches;
  const most = Math.max(...layers.map(({places}) => places.query_prefix));
  let share = new Float32Array(most + numPatches);
  share[token] = 1;
  for (let index = last; index >= 0; index--) {
    const skipped = most - layers[index].places.query_prefix;
    const numTokens = layers[index].numQueries;
    const next = share.map((x) => x / 2);
    for (let token = 0; token < skipped; token++) next[token] = share[token];
    for (let query = 0; query < numTokens; query++) {
      const weight = share[skipped + query] / 2;
      if (weight === 0) continue;
      const row = query * numTokens;
      for (let key = 0; key < numTokens; key++) {
        next[skipped + key] += weight * means[index][row + key];
      }
    }
    share = next;
  }
  return share;
}

/**
 * The largest weights of a map of patches, largest first.
 * @param {Float32Array} weights
 * @param {number} count
 * @returns {number[]} indices
 */
export function largest(weights, count) {
  return Array.from(weights.keys())
    .sort((a, b) => weights[b] - weights[a] || a - b)
    .slice(0, count);
}
