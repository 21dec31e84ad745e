// An image with its patches: choose one by pointing, see attention painted over it.

import {fitted, outline, paintTiles} from './painting.js';
/** @import {Tiles} from './painting.js' */

/** A canvas that shows an image, a grid, a map over it and the chosen patch. */
export class Picture {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.map = document.createElement('canvas');
  }

  /**
   * @param {object} what
   * @param {HTMLImageElement | null} what.image drawn below everything
   * @param {number} what.width CSS pixels
   * @param {number} what.height
   * @param {[number, number] | null} what.grid lines between these rows and columns
   * @param {Tiles | null} what.tiles painted over the image
   * @param {boolean} [what.dimmed] whether the image is darkened below the map
   * @param {{grid: [number, number], patch: number, strong: boolean} | null} what.marked
   */
  draw({image, width, height, grid, tiles, dimmed = false, marked}) {
    const {context, ratio} = fitted(this.canvas, width, height);
    const [w, h] = [this.canvas.width, this.canvas.height];
    context.clearRect(0, 0, w, h);
    context.imageSmoothingEnabled = image === null || image.naturalWidth >= 64;
    if (image) context.drawImage(image, 0, 0, w, h);
    if (dimmed) {
      context.fillStyle = 'rgb(12 4 28 / 0.62)';
      context.fillRect(0, 0, w, h);
    }
    if (tiles) {
      this.map.width = w;
      this.map.height = h;
      const over = /** @type {CanvasRenderingContext2D} */ (this.map.getContext('2d'));
      const whole = over.createImageData(w, h);
      paintTiles(new Uint32Array(whole.data.buffer), w, tiles, 0, 0, w, h);
      over.putImageData(whole, 0, 0);
      context.drawImage(this.map, 0, 0);
    }
    if (grid) {
      context.strokeStyle = 'rgb(255 255 255 / 0.28)';
      context.lineWidth = 1;
      context.beginPath();
      for (let row = 1; row < grid[0]; row++) {
        const y = Math.round((row * h) / grid[0]) + 0.5;
        context.moveTo(0, y);
        context.lineTo(w, y);
      }
      for (let col = 1; col < grid[1]; col++) {
        const x = Math.round((col * w) / grid[1]) + 0.5;
        context.moveTo(x, 0);
        context.lineTo(x, h);
      }
      context.stroke();
    }
    if (marked) {
      const [rows, cols] = marked.grid;
      const row = Math.floor(marked.patch / cols), col = marked.patch % cols;
      const thickness = (marked.strong ? 2.5 : 1.5) * ratio;
      outline(context, (col * w) / cols, (row * h) / rows, w / cols, h / rows, thickness);
    }
  }
}

/**
 * The patch of a grid at a place of an element.
 * @param {{clientX: number, clientY: number}} event
 * @param {Element} element
 * @param {[number, number]} grid
 */
export function patchAt(event, element, [rows, cols]) {
  const box = element.getBoundingClientRect();
  const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
  const col = Math.floor(((event.clientX - box.left) / box.width) * cols);
  const within = row >= 0 && row < rows && col >= 0 && col < cols;
  return within ? row * cols + col : null;
}
