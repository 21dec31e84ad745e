// A rectangle drawn over a figure: drag to draw, drag inside to move, click elsewhere to clear.

/** @typedef {[number, number, number, number]} Box left, right, top, bottom, in the figure's units */

/**
 * @param {SVGSVGElement} figure
 * @param {PointerEvent} event
 * @returns {[number, number]}
 */
function placeOf(figure, event) {
  const matrix = figure.getScreenCTM()?.inverse();
  const {x, y} = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
  return [x, y];
}

/**
 * Begin to draw or move a box.
 * @param {PointerEvent} event of pressing
 * @param {Box} room the box must stay within
 * @param {Box | null} old
 * @param {(box: Box | null) => void} tell called with every change
 */
export function startBrush(event, [left, right, top, bottom], old, tell) {
  const target = /** @type {SVGElement} */ (event.currentTarget);
  const figure = /** @type {SVGSVGElement} */ (target.ownerSVGElement);
  const start = placeOf(figure, event);
  const moves = old && start[0] >= old[0] && start[0] <= old[1] && start[1] >= old[2] && start[1] <= old[3];
  const clamp = (/** @type {number} */ x, /** @type {number} */ low, /** @type {number} */ high) => Math.min(high, Math.max(low, x));
  event.preventDefault();
  target.setPointerCapture(event.pointerId);
  let dragged = false;

  function drag(/** @type {PointerEvent} */ to) {
    const now = placeOf(figure, to);
    dragged ||= Math.hypot(now[0] - start[0], now[1] - start[1]) > 3;
    if (!dragged) return;
    if (moves) {
      const across = clamp(now[0] - start[0], left - old[0], right - old[1]);
      const down = clamp(now[1] - start[1], top - old[2], bottom - old[3]);
      tell([old[0] + across, old[1] + across, old[2] + down, old[3] + down]);
    } else {
      const [x, y] = [clamp(now[0], left, right), clamp(now[1], top, bottom)];
      tell([Math.min(start[0], x), Math.max(start[0], x), Math.min(start[1], y), Math.max(start[1], y)]);
    }
  }

  function end() {
    target.removeEventListener('pointermove', drag);
    if (!dragged) tell(null);
  }
  target.addEventListener('pointermove', drag);
  target.addEventListener('pointerup', end, {once: true});
  target.addEventListener('pointercancel', end, {once: true});
}
