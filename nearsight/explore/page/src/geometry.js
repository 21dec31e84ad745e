// Where the patches and cells of a layer are, and how far apart.

/** @import {Places} from './types.js' */

const RADII = [1, 3]; // as in companding.py

/** Distances between the patches and the cells of a layer, [patch, cell] row by row. */
export class Geometry {
  /** @param {Places} places */
  constructor(places) {
    const [rows, cols] = places.grid;
    const keyRows = places.key_rows, keyCols = places.key_cols;
    this.rows = rows;
    this.cols = cols;
    this.numPatches = rows * cols;
    this.keyRows = keyRows.length;
    this.keyCols = keyCols.length;
    this.numCells = this.keyRows * this.keyCols;
    this.diagonal = Math.hypot(rows - 1, cols - 1) || 1;
    const size = this.numPatches * this.numCells;
    /** distance in patches */
    this.distance = new Float32Array(size);
    /** which scale of its row a weight has */
    this.number = new Uint8Array(size);
    this.down = new Float32Array(size);
    this.right = new Float32Array(size);
    /** the cell nearest to every patch: its own, unless keys are pooled */
    this.own = new Int32Array(this.numPatches);
    let total = 0;
    for (let patch = 0, at = 0; patch < this.numPatches; patch++) {
      const row = Math.floor(patch / cols), col = patch % cols;
      let nearest = Infinity;
      for (let cell = 0; cell < this.numCells; cell++, at++) {
        const down = keyRows[Math.floor(cell / this.keyCols)] - row;
        const right = keyCols[cell % this.keyCols] - col;
        const ring = Math.max(Math.abs(down), Math.abs(right));
        this.down[at] = down;
        this.right[at] = right;
        const distance = Math.hypot(down, right);
        this.distance[at] = distance;
        this.number[at] = ring <= RADII[0] ? 0 : ring <= RADII[1] ? 1 : 2;
        total += distance;
        if (distance < nearest) {
          nearest = distance;
          this.own[patch] = cell;
        }
      }
    }
    /** mean distance of uniform attention, in patches */
    this.uniform = total / size;
    /** @type {{width: number, table: Float32Array} | null} */
    this.gaussian = null;
  }

  /**
   * What a Gaussian of this width, added to the logits, multiplies weights by.
   * @param {number | null} width in patches; null for none
   */
  factors(width) {
    if (width === null) return null;
    if (this.gaussian?.width !== width) {
      const table = new Float32Array(this.distance.length);
      for (let at = 0; at < table.length; at++) {
        table[at] = Math.exp(-(this.distance[at] ** 2) / (2 * width ** 2));
      }
      this.gaussian = {width, table};
    }
    return this.gaussian.table;
  }
}

/** @type {Map<string, Geometry>} */
const known = new Map();

/**
 * The geometry of a layer; layers that look alike share it.
 * @param {Places} places
 */
export function geometryOf(places) {
  const key = JSON.stringify([places.grid, places.key_rows, places.key_cols]);
  let found = known.get(key);
  if (!found) known.set(key, (found = new Geometry(places)));
  return found;
}

/**
 * The patch of another grid at the centre of a patch.
 * @param {number} patch
 * @param {[number, number]} grid
 * @param {[number, number]} other
 */
export function samePlace(patch, grid, other) {
  const row = Math.floor(patch / grid[1]), col = patch % grid[1];
  const down = Math.floor(((row + 0.5) * other[0]) / grid[0]);
  const right = Math.floor(((col + 0.5) * other[1]) / grid[1]);
  return down * other[1] + right;
}
