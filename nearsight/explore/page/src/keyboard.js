// Keys: arrows for layer and head, space to pin, numbers for images, shift for incoming attention.

import * as state from './state.js';

/**
 * Whether an element needs these keys itself.
 * @param {EventTarget | null} target
 */
const takesKeys = (target) =>
  target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA|SUMMARY)$/.test(target.tagName);

/** @param {KeyboardEvent} event */
export function onKey(event) {
  if (event.key === 'Shift') state.shift.value = true;
  if (state.view.value !== 'explorer' || event.ctrlKey || event.metaKey || event.altKey) return;
  if (takesKeys(event.target)) return;
  const examples = state.shown.value[0]?.examples;
  if (!examples) return;
  const isButton = event.target instanceof HTMLButtonElement;
  const actions = /** @type {Record<string, () => void>} */ ({
    ArrowUp: () => { state.layer.value -= 1; },
    ArrowDown: () => { state.layer.value += 1; },
    ArrowLeft: () => { state.head.value = Math.max(0, state.head.value - 1); },
    ArrowRight: () => { state.head.value += 1; },
    c: () => nextPrefix(examples.prefix_names.length),
    ...(isButton ? {} : {' ': () => { state.pinned.value = !state.pinned.value; }}),
  });
  if (/^[1-9]$/.test(event.key) && Number(event.key) <= state.numImages.value) {
    state.image.value = Number(event.key) - 1;
  } else if (actions[event.key]) {
    actions[event.key]();
    state.settle();
  } else {
    return;
  }
  event.preventDefault();
}

/** @param {number} count */
function nextPrefix(count) {
  const next = (state.chosenPrefix.value ?? -1) + 1;
  if (next < count) {
    state.token.value = {prefix: next};
    state.pinned.value = true;
  } else {
    state.token.value = {patch: 0};
    state.pinned.value = false;
  }
}
