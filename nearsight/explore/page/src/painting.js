// Own drawing on canvases: maps of patches as blocks of colour, images with their grid.

import {placePacked, packed, viridisPacked} from './colour.js';
/** @import {Layer} from './decoding.js' */

/**
 * A map of patches ready to be painted.
 * @typedef {object} Tiles
 * @property {number} rows
 * @property {number} cols
 * @property {Uint32Array} colours packed, row by row
 */

/**
 * Weights in viridis, the largest brightest.
 * @param {ArrayLike<number>} weights
 * @param {number} rows
 * @param {number} cols
 * @param {number} low drawn darkest
 * @param {number} high drawn brightest
 * @returns {Tiles}
 */
export function heatTiles(weights, rows, cols, low, high) {
  const colours = new Uint32Array(rows * cols), scale = high > low ? 1 / (high - low) : 0;
  for (let at = 0; at < colours.length; at++) colours[at] = viridisPacked((weights[at] - low) * scale);
  return {rows, cols, colours};
}

/**
 * The same to lie over a dimmed image: the less weight, the more of the image shows through.
 * @param {Tiles} tiles
 * @param {ArrayLike<number>} weights
 * @param {number} high drawn brightest
 * @returns {Tiles}
 */
export function translucent({rows, cols, colours}, weights, high) {
  const seen = colours.map((colour, at) => {
    const share = Math.min(1, Math.max(0, weights[at] / (high || 1)));
    return (((215 * Math.sqrt(share)) << 24) | (colour & 0xffffff)) >>> 0;
  });
  return {rows, cols, colours: seen};
}

/**
 * The first three principal components of the features of a layer as red, green and blue.
 * @param {Layer} layer
 * @returns {Tiles}
 */
export function featureTiles({geometry, colours}) {
  const found = Uint32Array.from({length: geometry.numPatches}, (_, at) =>
    packed(colours[3 * at], colours[3 * at + 1], colours[3 * at + 2]));
  return {rows: geometry.rows, cols: geometry.cols, colours: found};
}

/**
 * Every patch in the colour of the mean place that it attends to.
 * @param {Float32Array} places [patch, 2] of ``meanPlaces``
 * @param {number} rows
 * @param {number} cols
 * @returns {Tiles}
 */
export function placeTiles(places, rows, cols) {
  const colours = Uint32Array.from({length: rows * cols}, (_, at) =>
    placePacked(places[2 * at], places[2 * at + 1]));
  return {rows, cols, colours};
}

/**
 * Every patch in the colour of its own place, as in a head whose patches attend to themselves.
 * @param {number} rows
 * @param {number} cols
 */
export function ownPlaceTiles(rows, cols) {
  const places = Float32Array.from({length: 2 * rows * cols}, (_, i) => {
    const at = i >> 1;
    return i % 2 ? (at % cols) / Math.max(1, cols - 1) : Math.floor(at / cols) / Math.max(1, rows - 1);
  });
  return placeTiles(places, rows, cols);
}

/**
 * Paint a map into a part of an image, every patch as a block without smoothing.
 * @param {Uint32Array} pixels
 * @param {number} stride pixels of a line
 * @param {Tiles} tiles
 * @param {number} left
 * @param {number} top
 * @param {number} width
 * @param {number} height
 */
export function paintTiles(pixels, stride, tiles, left, top, width, height) {
  const {rows, cols, colours} = tiles;
  for (let row = 0; row < rows; row++) {
    const from = top + Math.round((row * height) / rows);
    const to = top + Math.round(((row + 1) * height) / rows);
    if (to <= from) continue;
    for (let col = 0; col < cols; col++) {
      const start = from * stride + left + Math.round((col * width) / cols);
      const end = from * stride + left + Math.round(((col + 1) * width) / cols);
      pixels.fill(colours[row * cols + col], start, end);
    }
    const line = from * stride + left;
    for (let y = from + 1; y < to; y++) pixels.copyWithin(y * stride + left, line, line + width);
  }
}

/**
 * Give a canvas as many pixels as the screen has for it; return its context and the factor.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width in CSS pixels
 * @param {number} height
 */
export function fitted(canvas, width, height) {
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  const size = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== size[0] || canvas.height !== size[1]) {
    canvas.width = size[0];
    canvas.height = size[1];
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  return {context, ratio};
}

/**
 * Outline a patch so that it is seen on any ground: a dark line around a light one.
 * @param {CanvasRenderingContext2D} context
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} height
 * @param {number} thickness
 */
export function outline(context, x, y, width, height, thickness) {
  context.lineWidth = 2 * thickness;
  context.strokeStyle = '#000';
  context.strokeRect(x, y, width, height);
  context.lineWidth = thickness;
  context.strokeStyle = '#fff';
  context.strokeRect(x, y, width, height);
}
