// From the base64 text of an image to the attention and features of its layers (examples.py).

import {geometryOf} from './geometry.js';
/** @import {Examples, Places} from './types.js' */
/** @import {Geometry} from './geometry.js' */

const LEVELS = 255;
const NUM_SCALES = 3;
const STEPS = 1024; // of a scale between a power of 2 and the next
const LIKENESS_STEPS = 63;

/** (code / 255)^2 for every code */
export const SHARES = Float32Array.from({length: LEVELS + 1}, (_, code) => (code / LEVELS) ** 2);

/**
 * One layer of one image: companded rows, and what is needed to read them.
 * @typedef {object} Layer
 * @property {Places} places
 * @property {Geometry} geometry
 * @property {number} numQueries prefix tokens and patches
 * @property {Float32Array} prefix weights on prefix tokens [head, query, prefix]
 * @property {Float32Array} scales [head, query, 3]
 * @property {Uint8Array} codes [head, query, cell]
 * @property {Uint8Array} likeness lower triangle of cosines
 * @property {Uint8Array} colours [patch, 3]
 */

/**
 * @param {string} text base64
 * @returns {Uint8Array<ArrayBuffer>}
 */
function fromBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** @param {Uint8Array<ArrayBuffer>} bytes gzip */
async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * Put the codes of patches back together from what their neighbours do not predict.
 * @param {Uint8Array} codes of one head, [query, cell]; changed in place
 * @param {number} first the first patch among the queries
 * @param {number} numQueries
 * @param {number} numCells
 * @param {number} cols
 */
function undoDifferences(codes, first, numQueries, numCells, cols) {
  const above = cols * numCells;
  for (let patch = 1; patch < numQueries - first; patch++) {
    const start = (first + patch) * numCells;
    for (let at = start; at < start + numCells; at++) {
      const before = codes[at - numCells];
      codes[at] += patch < cols ? before : (before + codes[at - above]) >> 1;
    }
  }
}

/**
 * @param {Uint16Array} codes
 * @returns {Float32Array}
 */
const sizesOf = (codes) => Float32Array.from(codes, (code) => 2 ** (-code / STEPS));

/**
 * Decode all layers of one image.
 * @param {Examples} examples
 * @param {number} index
 * @returns {Promise<Layer[]>}
 */
export async function decodeImage(examples, index) {
  const bytes = await inflated(fromBase64(examples.images[index].bytes));
  let start = 0;
  /** @param {number} count */
  const words = (count) => new Uint16Array(bytes.buffer, (start += 2 * count) - 2 * count, count);
  /** @param {number} count */
  const small = (count) => bytes.subarray(start, (start += count));
  const layers = examples.layers.map((places) => {
    const geometry = geometryOf(places);
    const numQueries = places.query_prefix + geometry.numPatches;
    const rows = places.num_heads * numQueries;
    return {
      places, geometry, numQueries,
      prefix: sizesOf(words(rows * places.key_prefix)),
      scales: sizesOf(words(rows * NUM_SCALES)),
      codes: new Uint8Array(), likeness: new Uint8Array(), colours: new Uint8Array(),
    };
  });
  for (const layer of layers) {
    const {places, geometry, numQueries} = layer;
    const size = numQueries * geometry.numCells;
    layer.codes = small(places.num_heads * size);
    for (let head = 0; head < places.num_heads; head++) {
      const codes = layer.codes.subarray(head * size, (head + 1) * size);
      undoDifferences(codes, places.query_prefix, numQueries, geometry.numCells, geometry.cols);
    }
  }
  for (const layer of layers) {
    const tokens = numFeatures(layer);
    layer.likeness = small((tokens * (tokens + 1)) / 2);
  }
  for (const layer of layers) {
    layer.colours = small(layer.places.feature_prefix === null ? 0 : 3 * layer.geometry.numPatches);
  }
  return layers;
}

/** @param {Layer} layer */
const numFeatures = ({places, geometry}) =>
  places.feature_prefix === null ? 0 : places.feature_prefix + geometry.numPatches;

/**
 * Cosine of the features of one token with those of all patches.
 * @param {Layer} layer
 * @param {number} token prefix tokens first
 * @returns {Float32Array | null} null where there are no features of it
 */
export function similarity(layer, token) {
  const prefix = layer.places.feature_prefix;
  if (prefix === null || token >= numFeatures(layer)) return null;
  return Float32Array.from({length: layer.geometry.numPatches}, (_, patch) => {
    const other = prefix + patch;
    const row = Math.max(token, other), col = Math.min(token, other);
    return (2 * layer.likeness[(row * (row + 1)) / 2 + col]) / LIKENESS_STEPS - 1;
  });
}
