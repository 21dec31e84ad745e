// Draw at most once per frame, after whatever signals have changed.

import {effect} from '@preact/signals-core';

/**
 * Call ``draw`` in the next frame whenever a signal changes that ``watch`` reads; ``again`` asks for
 * one more frame.
 * @param {() => void} watch
 * @param {() => void} draw
 * @returns {{again: () => void, stop: () => void}}
 */
export function framed(watch, draw) {
  let waiting = 0;
  const run = () => {
    waiting = 0;
    draw();
  };
  const again = () => {
    if (!waiting) waiting = requestAnimationFrame(run);
  };
  const stopEffect = effect(() => {
    watch();
    again();
  });
  return {
    again,
    stop: () => {
      stopEffect();
      cancelAnimationFrame(waiting);
    },
  };
}
