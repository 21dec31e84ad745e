// Start the page: read its contents, show one of three views, and keep the address in step with it.

import {effect} from '@preact/signals-core';
import {html, nothing, render} from 'lit-html';
import {headMetrics, rowOf} from './attention.js';
import {mountExplorer} from './explorer.js';
import {mountHeads} from './heads.js';
import {onKey} from './keyboard.js';
import {Scene} from './maps.js';
import {mountRuns} from './runs.js';
import {askContents, openLinked} from './serving.js';
import * as state from './state.js';
/** @import {View} from './state.js' */

/** @type {Record<View, [string, (root: HTMLElement) => () => void]>} */
const VIEWS = {
  explorer: ['Explorer', mountExplorer],
  heads: ['Heads', mountHeads],
  runs: ['Runs and studies', mountRuns],
};
const ADDRESS_DELAY = 250; // ms; while the pointer moves, the address does not change

const header = () => html`
  <header><h1>${state.contents.value.title}</h1>
    <nav aria-label="Views">${Object.entries(VIEWS).map(([name, [label]]) => state.hasView(/** @type {View} */ (name))
      ? html`<button type="button" aria-current=${name === state.view.value ? 'page' : 'false'}
          @click=${() => { state.view.value = /** @type {View} */ (name); }}>${label}</button>` : nothing)}</nav>
    <p id="message" role="status"></p></header>
  <main id="view"></main>
  <footer><p>nearsight ${state.contents.value.version} · MAD is in diagonals of the patch grid, and entropy is divided
    by log N. Both are between patches, with rows renormalised.</p></footer>`;

/** Keep the address in step with the view; a page inside another page has no address of its own. */
function followAddress() {
  let waiting = 0, written = '';
  const write = () => {
    written = `#${state.address.peek()}`;
    try {
      history.replaceState(null, '', written);
    } catch {
      // inside a frame without an origin the address cannot be written, and nobody sees it
    }
  };
  effect(() => {
    void state.address.value;
    clearTimeout(waiting);
    waiting = setTimeout(write, ADDRESS_DELAY);
  });
  addEventListener('hashchange', async () => {
    const asked = location.hash;
    if (asked === written) return;
    if (state.contents.peek().server) await openLinked(asked);
    state.readAddress(asked);
  });
}

async function start() {
  const page = /** @type {HTMLElement} */ (document.querySelector('#page'));
  const given = JSON.parse(document.querySelector('#contents')?.textContent ?? '{}');
  state.contents.value = given.server ? {...(await askContents()), server: given.server} : given;
  if (given.server) await openLinked(location.hash);
  const numbered = state.models.value.map((model, index) => ({model, index}));
  const withMaps = numbered.filter(({model}) => model.examples).map(({index}) => index);
  state.a.value = withMaps[0] ?? 0;
  state.b.value = withMaps[1] ?? null;
  state.chooseMiddle();
  if (!withMaps.length && state.hasView('runs')) state.view.value = 'runs';
  state.settle();
  state.startHere();
  state.readAddress(location.hash);
  page.replaceChildren();
  effect(() => {
    render(header(), page);
  });
  let end = () => {};
  effect(() => {
    const [, mount] = VIEWS[state.view.value];
    end();
    end = mount(/** @type {HTMLElement} */ (document.querySelector('#view')));
  });
  followAddress();
  addEventListener('keydown', onKey);
  addEventListener('keyup', (event) => {
    if (event.key === 'Shift') state.shift.value = false;
  });
  addEventListener('blur', () => { state.shift.value = false; });
  document.documentElement.dataset.ready = 'true';
}

/** For the console and for tests: what is on show, as numbers. */
Object.assign(window, {
  nearsight: {
    state,
    /**
     * The attention row of the chosen token in a head, as it is drawn.
     * @param {number} model 0 or 1
     * @param {number} layer
     * @param {number} head
     */
    async row(model, layer, head) {
      const shown = state.shown.value[model];
      const layers = await state.layersOf(shown, state.image.value);
      const query = state.queryOf(layers[layer].places, shown.examples?.prefix_names.length ?? 0);
      return query === null ? null : Array.from(rowOf(layers[layer], head, query, state.width.value));
    },
    /**
     * What the chosen mode draws of a head or layer, on patches.
     * @param {number} model
     * @param {number} layer
     * @param {number} head
     */
    async shown(model, layer, head) {
      const {examples} = state.shown.value[model];
      const layers = await state.layersOf(state.shown.value[model], state.image.value);
      return Array.from(new Scene(layers, examples?.prefix_names.length ?? 0).shown(layer, head)?.weights ?? []);
    },
    /**
     * Metrics of a head on the chosen image, with the Gaussian that is set.
     * @param {number} model
     * @param {number} layer
     * @param {number} head
     */
    async metrics(model, layer, head) {
      const layers = await state.layersOf(state.shown.value[model], state.image.value);
      return headMetrics(layers[layer], head, state.width.value);
    },
  },
});

start();
