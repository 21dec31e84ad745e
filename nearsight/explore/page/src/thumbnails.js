// All layers and heads of a model as thumbnails on one canvas.

import {fitted, outline, paintTiles} from './painting.js';
/** @import {Tiles} from './painting.js' */

const GAP = 3, LABELS = 22, SMALLEST = 14, LARGEST = 76;

/** Thumbnails in rows of layers; draws them, and knows which is where. */
export class Thumbnails {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.numLayers = 0;
    this.numHeads = 0;
    this.size = [0, 0];
  }

  /**
   * Choose the size of a thumbnail for the room there is.
   * @param {number} numLayers
   * @param {number} numHeads of the layer with most
   * @param {number} aspect width / height of the image
   * @param {number} width CSS pixels there are
   * @param {number} height CSS pixels that would be good
   */
  arrange(numLayers, numHeads, aspect, width, height) {
    const wide = (width - LABELS) / numHeads - GAP;
    const high = ((height - LABELS) / numLayers - GAP) * aspect;
    const side = Math.floor(Math.max(SMALLEST, Math.min(wide, Math.max(high, 34), LARGEST)));
    this.numLayers = numLayers;
    this.numHeads = numHeads;
    this.size = [side, Math.max(4, Math.round(side / aspect))];
  }

  /**
   * @param {number} layer
   * @param {number} head
   */
  corner(layer, head) {
    return [LABELS + head * (this.size[0] + GAP), LABELS + layer * (this.size[1] + GAP)];
  }

  /**
   * @param {number} x CSS pixels from the left of the canvas
   * @param {number} y
   * @returns {[number, number] | null} layer and head
   */
  at(x, y) {
    const head = Math.floor((x - LABELS) / (this.size[0] + GAP));
    const layer = Math.floor((y - LABELS) / (this.size[1] + GAP));
    return layer >= 0 && layer < this.numLayers && head >= 0 && head < this.numHeads
      ? [layer, head] : null;
  }

  /**
   * @param {(Tiles | null)[][]} maps by layer and head
   * @param {[number, number]} chosen layer and head
   * @param {string} ink of labels
   * @param {boolean} perLayer whether there is one map per layer, which has no number of a head
   */
  draw(maps, chosen, ink, perLayer) {
    const [width, height] = this.corner(this.numLayers, this.numHeads);
    const {context, ratio} = fitted(this.canvas, width, height);
    const whole = context.createImageData(this.canvas.width, this.canvas.height);
    const pixels = new Uint32Array(whole.data.buffer);
    const size = this.size.map((side) => Math.round(side * ratio));
    maps.forEach((heads, layer) => heads.forEach((tiles, head) => {
      if (!tiles) return;
      const [x, y] = this.corner(layer, head).map((side) => Math.round(side * ratio));
      paintTiles(pixels, this.canvas.width, tiles, x, y, size[0], size[1]);
    }));
    context.putImageData(whole, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = ink;
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    for (let layer = 0; layer < this.numLayers; layer++) {
      context.fillText(String(layer + 1), LABELS - 6, this.corner(layer, 0)[1] + this.size[1] / 2);
    }
    context.textAlign = 'center';
    for (let head = 0; head < (perLayer ? 0 : this.numHeads); head++) {
      context.fillText(String(head + 1), this.corner(0, head)[0] + this.size[0] / 2, LABELS - 10);
    }
    const [x, y] = this.corner(chosen[0], perLayer ? 0 : chosen[1]);
    outline(context, x - 1, y - 1, this.size[0] + 2, this.size[1] + 2, 2);
    context.setTransform(1, 0, 0, 1, 0, 0);
  }
}
