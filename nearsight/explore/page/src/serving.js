// What only a served page can do: request runs from the server, and send it an image to run models on.

import {batch} from '@preact/signals-core';
import * as state from './state.js';
/** @import {Contents, Model} from './types.js' */

/** Whether the page came from a server, which can send more runs. */
export const isServed = () => Boolean(state.contents.value.server);

/**
 * @param {string} path
 * @param {RequestInit} [options]
 */
async function ask(path, options) {
  const answer = await fetch(path, options);
  const found = await answer.json().catch(() => null);
  if (!answer.ok) {
    throw new Error(typeof found?.detail === 'string' ? found.detail : `The server answered with the error ${answer.status}.`);
  }
  return found;
}

/** @returns {Promise<Contents>} */
export const askContents = () => ask('api/contents');

/** @param {string} key of a run */
const askModel = (key) => /** @type {Promise<Model>} */ (ask(`api/runs/${encodeURIComponent(key)}`));

/**
 * Show a run of the server in the explorer, alone or beside the first one.
 * @param {string} key
 * @param {boolean} beside
 */
export async function openRun(key, beside) {
  let index = state.models.value.findIndex((model) => model.key === key);
  if (index < 0) {
    const model = await askModel(key);
    state.contents.value = {...state.contents.value, models: [...state.models.value, model]};
    index = state.models.value.length - 1;
  }
  batch(() => {
    const isFirst = state.shown.value.length === 0;
    if (beside) state.b.value = index;
    else state.a.value = index;
    if (isFirst) state.chooseMiddle();
  });
  state.settle();
}

/**
 * Load the runs that an address names, so that a link shows what it was copied from.
 * @param {string} hash
 */
export async function openLinked(hash) {
  const parts = new URLSearchParams(hash.replace(/^#/, ''));
  for (const part of ['a', 'b']) {
    const run = state.contents.value.runs.find(({name}) => name === parts.get(part));
    if (run?.key) await openRun(run.key, part === 'b').catch((error) => tell(error.message));
  }
}

/** @param {string} text */
function tell(text) {
  const place = document.querySelector('#message');
  if (place) place.textContent = text;
}

/**
 * Send a dropped image file to the server, which runs the shown models on it.
 * @param {DragEvent} event
 */
export async function dropImage(event) {
  event.preventDefault();
  const file = event.dataTransfer?.files[0];
  const server = state.contents.value.server;
  if (!file || !server) {
    if (file) tell('This page cannot run a model. To drop images on it, open it with nearsight explore --serve.');
    return;
  }
  tell(`Running the models on ${file.name} …`);
  try {
    const chosen = state.shown.value;
    for (const model of chosen) {
      if (!model.key || !model.examples) continue;
      const found = await ask(`api/runs/${encodeURIComponent(model.key)}/images`, {
        method: 'POST', body: file,
        headers: {'content-type': 'application/octet-stream', 'x-nearsight-token': server.token},
      });
      found.images[0].name = file.name;
      const added = {...model, examples: {...model.examples, images: [...model.examples.images, ...found.images]}};
      const models = state.models.value.map((each) => (each === model ? added : each));
      state.contents.value = {...state.contents.value, models};
    }
    state.image.value = state.numImages.value - 1;
    tell('');
  } catch (error) {
    tell(error instanceof Error ? error.message : String(error));
  }
}
