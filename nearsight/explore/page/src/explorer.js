// The explorer: an image, where the chosen patch attends in every head, and one head in detail.

import {batch, effect} from '@preact/signals-core';
import {html, nothing, render} from 'lit-html';
import {headMetrics, headName, largest, offsetMap} from './attention.js';
import {framed} from './frames.js';
import {highest, isPerLayer, Scene} from './maps.js';
import {heatTiles, ownPlaceTiles} from './painting.js';
import {patchAt, Picture} from './picture.js';
import {samePlace} from './geometry.js';
import * as state from './state.js';
import {Thumbnails} from './thumbnails.js';
import {dropImage} from './serving.js';
import {counted, number, percent, place} from './words.js';
/** @import {Model} from './types.js' */
/** @import {Mode} from './state.js' */

const NUM_NAMED = 5; // patches listed for the pinned one
const GAP = 24, LEAST_BESIDE = 150, DETAIL = [336, 272]; // CSS pixels, as in style.css
const SLIDER = 100; // steps of the slider; the last one means no Gaussian

/** @type {Record<Mode, string>} */
const MODE_NAMES = {
  attention: 'attention of every head',
  position: 'patches coloured by where they attend',
  rollout: 'attention rollout, layer by layer',
  similarity: 'similarity of features, layer by layer',
  pca: 'features in colours (PCA), layer by layer',
};

/** @type {Record<Mode, string>} */
const MODE_HELP = {
  attention: 'Bright patches get much attention. Each head has a colour scale of its own, unless all heads share one.',
  position: 'Each patch has the colour of the mean place that it attends to; the small picture shows the ' +
    'colour of every place. A local head looks like that picture, and a head that attends everywhere is grey.',
  rollout: 'Attention followed from a layer back to the image. The mean over heads of each layer is averaged ' +
    'with the identity, which stands for the residual connection (Abnar and Zuidema 2020).',
  similarity: 'How similar the features of each patch are to those of the chosen patch, after each layer. ' +
    'Dark is a cosine of 0 and bright a cosine of 1.',
  pca: 'The first three principal components of the features after each layer, shown as red, green and blue.',
};

/** Width of the Gaussian at a step of the slider, on a logarithmic scale; null at the last. */
const widthAt = (/** @type {number} */ step) => {
  if (step >= SLIDER) return null;
  const widest = 2 * Math.max(...state.baseGrid.value);
  return Number((state.NARROWEST * (widest / state.NARROWEST) ** (step / (SLIDER - 1))).toPrecision(2));
};

const stepAt = (/** @type {number | null} */ width) => {
  if (width === null) return SLIDER;
  const widest = 2 * Math.max(...state.baseGrid.value);
  return Math.round((SLIDER - 1) * Math.log(width / state.NARROWEST) / Math.log(widest / state.NARROWEST));
};

/** The scene and the image of a shown model. */
class Panel {
  constructor() {
    /** @type {Scene | null} */
    this.scene = null;
    /** @type {HTMLImageElement | null} */
    this.image = null;
    /** @type {object | null} */
    this.source = null;
  }
}

/**
 * @param {HTMLElement} root
 * @returns {() => void} removes it
 */
export function mountExplorer(root) {
  const panels = [new Panel(), new Panel()];
  /** @type {Map<string, Thumbnails | Picture>} */
  const drawers = new Map();

  /**
   * @template {Thumbnails | Picture} T
   * @param {string} id
   * @param {new (canvas: HTMLCanvasElement) => T} kind
   * @returns {T | null}
   */
  function drawer(id, kind) {
    const canvas = /** @type {HTMLCanvasElement | null} */ (root.querySelector(`#${id}`));
    if (!canvas) return null;
    let found = drawers.get(id);
    if (found?.canvas !== canvas) drawers.set(id, (found = new kind(canvas)));
    return /** @type {T} */ (found);
  }

  /** Decode the image of a model; draw when it is there. */
  async function load(/** @type {number} */ at, /** @type {Model} */ model, /** @type {number} */ index) {
    const panel = panels[at], examples = model.examples;
    if (!examples) return;
    const source = examples.images[Math.min(index, examples.images.length - 1)];
    if (panel.source === source) return;
    panel.source = source;
    const image = new Image();
    image.src = source.source;
    const [layers] = await Promise.all([state.layersOf(model, index), image.decode()]);
    if (panel.source !== source) return;
    panel.scene = new Scene(layers, examples.prefix_names.length);
    panel.image = image;
    loop.again();
  }

  function watch() {
    const signals = [state.shown, state.image, state.layer, state.head, state.token, state.pinned,
      state.isIncoming, state.mode, state.width, state.alike];
    for (const each of signals) void each.value;
  }

  function draw() {
    state.shown.value.forEach((model, at) => {
      const panel = panels[at];
      if (panel.scene && panel.image) drawPanel(model, at, panel.scene, panel.image);
    });
    const status = root.querySelector('#status');
    if (status) status.textContent = statusText();
  }

  function drawPanel(/** @type {Model} */ model, /** @type {number} */ at,
    /** @type {Scene} */ scene, /** @type {HTMLImageElement} */ image) {
    const index = Math.min(state.layer.value, scene.layers.length - 1);
    const layer = scene.layers[index], heads = layer.places.num_heads;
    const head = Math.min(state.head.value, heads - 1);
    const aspect = image.naturalWidth / image.naturalHeight;
    const first = scene.layers[0].places.grid;
    const chosen = state.token.value;
    const patch = 'patch' in chosen ? samePlace(chosen.patch, state.baseGrid.value, first) : null;
    const marked = patch === null ? null : {grid: first, patch, strong: state.pinned.value};
    const picture = at === 0 ? drawer('picture', Picture) : null;
    if (picture) {
      const width = widthOf('#picture-room', 360);
      picture.draw({image, width, height: Math.round(width / aspect), grid: first, tiles: null, marked});
    }
    const perLayer = isPerLayer();
    const tops = state.alike.value && state.mode.value === 'attention' ? highestOf(scene) : undefined;
    const maps = scene.layers.map(({places}, i) =>
      Array.from({length: perLayer ? 1 : places.num_heads}, (_, h) => scene.tiles(i, h, {top: tops})));
    const thumbnails = drawer(`thumbnails-${at}`, Thumbnails);
    if (thumbnails) {
      const most = perLayer ? 1 : Math.max(...scene.layers.map(({places}) => places.num_heads));
      thumbnails.arrange(scene.layers.length, most, aspect, roomFor(at), innerHeight - 190);
      thumbnails.draw(maps, [index, head], getComputedStyle(root).color, perLayer);
    }
    const map = drawer(`map-${at}`, Picture);
    if (map) {
      const width = widthOf(`#map-room-${at}`, 440);
      map.draw({
        image, width, height: Math.round(width / aspect), grid: null, marked, dimmed: true,
        tiles: scene.tiles(index, head, {top: tops, over: true}),
      });
    }
    const key = at === 0 ? drawer('place-key', Picture) : null;
    if (key) {
      key.draw({image: null, width: 56, height: 56 / aspect, grid: null, tiles: ownPlaceTiles(...first), marked});
    }
    const details = /** @type {HTMLElement | null} */ (root.querySelector(`#details-${at}`));
    if (details) render(detailsOf(model, scene, index, head), details);
    const offsets = drawer(`offsets-${at}`, Picture);
    const found = offsets && offsetMap(layer, head, state.width.value);
    if (offsets && found) {
      const width = 150;
      const tiles = heatTiles(found.weights, found.rows, found.cols, 0, highest(found.weights));
      const centre = ((found.rows - 1) / 2) * found.cols + (found.cols - 1) / 2;
      offsets.draw({
        image: null, width, height: Math.round((width * found.rows) / found.cols), grid: null, tiles,
        marked: {grid: [found.rows, found.cols], patch: centre, strong: false},
      });
    }
  }

  /** @param {Scene} scene */
  function highestOf(scene) {
    let found = 0;
    scene.layers.forEach(({places}, index) => {
      for (let head = 0; head < places.num_heads; head++) {
        const map = scene.weights(index, head, state.isIncoming.value, state.width.value);
        if (map) found = Math.max(found, highest(map.weights));
      }
    });
    return found;
  }

  /** The width for thumbnails: beside the details where that is enough, else all there is. */
  function roomFor(/** @type {number} */ at) {
    const both = root.querySelector(`#both-${at}`);
    if (!both) return 300;
    const beside = both.clientWidth - DETAIL[state.shown.value.length - 1] - GAP;
    return Math.min(900, beside >= LEAST_BESIDE ? beside : both.clientWidth);
  }

  const widthOf = (/** @type {string} */ id, /** @type {number} */ most) =>
    Math.max(40, Math.min(most, Math.floor(root.querySelector(id)?.clientWidth ?? most)));

  function detailsOf(/** @type {Model} */ model, /** @type {Scene} */ scene,
    /** @type {number} */ index, /** @type {number} */ head) {
    const width = state.width.value, layer = scene.layers[index];
    const before = headMetrics(layer, head, null);
    const now = width === null ? before : headMetrics(layer, head, width);
    const naming = state.contents.value.naming;
    const numbers = model.numbers;
    const measured = numbers?.names?.[index]?.[head];
    const map = scene.weights(index, head, state.isIncoming.value, width);
    const row = (/** @type {'mad' | 'entropy' | 'self_mass'} */ metric, /** @type {string} */ name) => {
      const over = numbers && [numbers[metric].mean, numbers[metric].low, numbers[metric].high]
        .map((part) => part?.[index]?.[head]);
      const change = width === null ? number(now[metric]) : `${number(before[metric])} → ${number(now[metric])}`;
      return html`<tr><th scope="row">${name}</th>
        <td data-metric=${metric} data-value=${now[metric]}>${change}</td>
        <td>${over?.[0] === undefined ? '–' : html`${number(over[0])} ${over[1] === undefined || over[2] === undefined ? nothing
          : html`<small>${number(over[1])} to ${number(over[2])}</small>`}`}</td></tr>`;
    };
    const onPrefix = map?.prefix.length ? Array.from(map.prefix, (share, i) =>
      `${model.examples?.prefix_names[scene.numPrefix - map.prefix.length + i]} ${percent(share)}`) : [];
    return html`
      <h3>Layer ${index + 1}, head ${head + 1}
        <span class="name" data-name=${headName(now, naming)}>${headName(now, naming)}</span></h3>
      <p class="note">${measured && measured !== headName(now, naming)
        ? `${measured} over ${counted(numbers?.num_images ?? 0, 'image')}` : layer.places.name}</p>
      <table class="numbers"><thead><tr><td></td><th scope="col">this image</th>
        <th scope="col">${numbers ? `over ${counted(numbers.num_images, 'image')}` : 'not measured'}</th></tr></thead>
        <tbody>${row('mad', 'MAD')}${row('entropy', 'entropy')}${row('self_mass', 'self-mass')}</tbody></table>
      ${map === null ? html`<p class="note">The chosen token takes no part in this layer.</p>` : nothing}
      <p class="note">${onPrefix.length ? `Attention to prefix tokens: ${onPrefix.join(', ')}.` : nothing}</p>
      ${nameList(map)}`;
  }

  function nameList(/** @type {import('./maps.js').Weights | null} */ map) {
    if (!state.pinned.value || !map) return nothing;
    const verb = state.isIncoming.value ? 'gets most attention from' : 'attends most to';
    return html`<div class="pinned"><p>The pinned ${tokenText()} ${verb}</p>
      <ol>${largest(map.weights, NUM_NAMED).map((patch) =>
        html`<li>${place(patch, map.cols)} <span>${percent(map.weights[patch])}</span></li>`)}</ol></div>`;
  }

  function tokenText() {
    const chosen = state.token.value;
    if ('prefix' in chosen) return state.shown.value[0]?.examples?.prefix_names[chosen.prefix] ?? '';
    return `patch in ${place(chosen.patch, state.baseGrid.value[1])}`;
  }

  const statusText = () =>
    `${state.isIncoming.value ? 'Which patches attend to the' : 'Where the'} ${tokenText()}` +
    `${state.isIncoming.value ? '' : ' attends'}${state.pinned.value ? ' (pinned)' : ''}`;

  /** @param {number} patch */
  const point = (patch) => {
    const at = 'patch' in state.token.value ? state.token.value.patch : -1;
    if (at !== patch) state.token.value = {patch};
  };

  /** @param {PointerEvent} event */
  function hover(event) {
    if (state.pinned.value || event.pointerType === 'touch') return;
    const patch = patchAt(event, /** @type {Element} */ (event.currentTarget), state.baseGrid.value);
    if (patch !== null) point(patch);
  }

  /** @param {MouseEvent} event */
  function pin(event) {
    const patch = patchAt(event, /** @type {Element} */ (event.currentTarget), state.baseGrid.value);
    if (patch === null) return;
    const same = 'patch' in state.token.value && state.token.value.patch === patch;
    batch(() => {
      state.pinned.value = !(same && state.pinned.value);
      point(patch);
    });
  }

  /** @param {KeyboardEvent} event */
  function movePatch(event) {
    const [rows, cols] = state.baseGrid.value;
    const at = 'patch' in state.token.value ? state.token.value.patch : 0;
    const row = Math.floor(at / cols), col = at % cols;
    const moved = {
      ArrowUp: [row - 1, col], ArrowDown: [row + 1, col],
      ArrowLeft: [row, col - 1], ArrowRight: [row, col + 1],
    }[event.key];
    if (!moved) return;
    event.preventDefault();
    event.stopPropagation();
    const [down, right] = [Math.min(rows - 1, Math.max(0, moved[0])), Math.min(cols - 1, Math.max(0, moved[1]))];
    state.token.value = {patch: down * cols + right};
  }

  /** @param {MouseEvent} event @param {number} at */
  function chooseHead(event, at) {
    const found = drawer(`thumbnails-${at}`, Thumbnails)?.at(event.offsetX, event.offsetY);
    if (!found) return;
    batch(() => {
      state.layer.value = found[0];
      if (!isPerLayer()) state.head.value = found[1];
    });
  }

  const modelBlock = (/** @type {Model} */ model, /** @type {number} */ at) => html`
    <section class="model" aria-label=${model.name}>
      <h2>${model.name === state.contents.value.title ? nothing : model.name} <small>${model.detail}</small></h2>
      ${model.examples ? html`
        <div class="both" id="both-${at}">
          <div class="room">
            <canvas id="thumbnails-${at}" role="img" aria-label="${thumbnailsText(model)}"
              @click=${(/** @type {MouseEvent} */ event) => chooseHead(event, at)}></canvas>
          </div>
          <div class="detail">
            <div id="map-room-${at}"><canvas id="map-${at}" class="map" role="img"
              aria-label="The chosen head of ${model.name} on the image"
              @pointermove=${hover} @click=${pin}></canvas></div>
            <div id="details-${at}"></div>
            <figure class="offsets"><canvas id="offsets-${at}" role="img"
              aria-label="Mean attention by offset from the patch"></canvas>
              <figcaption>Mean offset map: where patches attend, relative to themselves (the framed square).</figcaption></figure>
          </div>
        </div>` : html`<p>${model.note}</p>`}
    </section>`;

  const thumbnailsText = (/** @type {Model} */ model) =>
    `Attention maps of ${model.examples?.layers.length} layers, with a row for each layer and a column for each ` +
    'head; the arrow keys choose the layer and the head';

  const modelChoice = () => state.models.value.length < 2 ? nothing : html`
    <div class="choice">
      <label>Model <select @change=${(/** @type {Event} */ event) => {
        state.a.value = Number(/** @type {HTMLSelectElement} */ (event.target).value);
        state.settle();
      }}>${options(state.a.value)}</select></label>
      <label>beside <select @change=${(/** @type {Event} */ event) => {
        const {value} = /** @type {HTMLSelectElement} */ (event.target);
        state.b.value = value === '' ? null : Number(value);
        state.settle();
      }}><option value="" ?selected=${state.b.value === null}>none</option>${options(state.b.value)}</select></label>
    </div>`;

  const options = (/** @type {number | null} */ chosen) => state.models.value.map((model, index) => html`
    <option value=${index} ?selected=${index === chosen} ?disabled=${!model.examples}>${model.name}</option>`);

  function controls() {
    const examples = state.shown.value[0]?.examples;
    if (!examples) return nothing;
    const width = state.width.value;
    const prefixes = examples.prefix_names;
    return html`<div class="quick">
      <div class="images" role="group" aria-label="Images">${examples.images.slice(0, state.numImages.value).map((image, index) => html`
        <button type="button" aria-pressed=${index === state.image.value} title=${image.name}
          @click=${() => { state.image.value = index; }}>
          <img src=${image.source} alt="Image ${index + 1}: ${image.name}"></button>`)}</div>
      <p class="note file">${examples.images[Math.min(state.image.value, examples.images.length - 1)].name}</p>
      ${prefixes.length ? html`<div class="prefixes" role="group" aria-label="Prefix tokens">${prefixes.map((name, index) => {
        const chosen = state.chosenPrefix.value === index;
        return html`<button type="button" aria-pressed=${chosen} @click=${() => batch(() => {
          state.token.value = chosen ? {patch: 0} : {prefix: index};
          state.pinned.value = !chosen;
        })}>${name}</button>`;
      })}</div>` : nothing}
      <fieldset><legend>The chosen patch</legend>
        <label><input type="radio" name="direction" .checked=${!state.isIncoming.value}
          @change=${() => { state.incoming.value = false; }}> attends to</label>
        <label><input type="radio" name="direction" .checked=${state.isIncoming.value}
          @change=${() => { state.incoming.value = true; }}> gets attention from</label>
      </fieldset></div><div class="settings">
      <label class="wide">Show <select @change=${(/** @type {Event} */ event) => {
        state.mode.value = /** @type {Mode} */ (/** @type {HTMLSelectElement} */ (event.target).value);
      }}>${state.MODES.map((mode) => html`<option value=${mode} ?selected=${mode === state.mode.value}>
        ${MODE_NAMES[mode]}</option>`)}</select></label>
      <div class="help">${state.mode.value === 'position' ? html`<canvas id="place-key" role="img"
        aria-label="The colour of every row and column"></canvas>` : nothing}
        <p class="note">${MODE_HELP[state.mode.value]}</p></div>
      ${state.mode.value === 'attention' ? html`<label class="wide"><input type="checkbox" .checked=${state.alike.value}
        @change=${(/** @type {Event} */ event) => { state.alike.value = /** @type {HTMLInputElement} */ (event.target).checked; }}>
        same colour scale for all heads</label>` : nothing}
      <label class="wide">What if a Gaussian were added to all logits?
        <input id="gaussian" type="range" min="0" max=${SLIDER} step="1" .value=${String(stepAt(width))}
          aria-valuetext=${width === null ? 'no Gaussian' : `${width} patches wide`}
          @input=${(/** @type {Event} */ event) => { state.width.value = widthAt(Number(/** @type {HTMLInputElement} */ (event.target).value)); }}></label>
      <p class="note"><output>${width === null ? 'No Gaussian.' : `Standard deviation ${width} patches.`}</output>
        ${width === null ? nothing : html`<button type="button" class="plain" @click=${() => { state.width.value = null; }}>remove</button>`}</p>
      ${modelChoice()}
      <details class="keys"><summary>Keys</summary><dl>
        <dt>arrows</dt><dd>choose layer and head; on the image, the patch</dd>
        <dt>space</dt><dd>pin or release the patch</dd>
        <dt>shift</dt><dd>while held: which patches attend to it</dd>
        <dt>1 to 9</dt><dd>choose the image</dd><dt>c</dt><dd>choose the next prefix token</dd></dl></details></div>`;
  }

  const frame = () => {
    const shown = state.shown.value;
    if (!shown.length) return html`<p class="empty">${state.models.value[state.a.value]?.note ||
      'This page has no attention to explore; see Heads, and Runs and studies.'}</p>`;
    return html`<div class="explorer ${shown.length > 1 ? 'two' : 'one'}">
      <div class="side"><div class="sticky">
        <div id="picture-room"><canvas id="picture" tabindex="0" role="application"
          aria-label="Image with its patches; arrow keys move the chosen patch, space pins it"
          @pointermove=${hover} @click=${pin} @keydown=${movePatch}
          @dragover=${(/** @type {DragEvent} */ event) => event.preventDefault()}
          @drop=${dropImage}></canvas></div>
        <p id="status" class="status" role="status"></p>
        ${controls()}
      </div></div>
      <div class="models">${shown.map(modelBlock)}</div>
    </div>`;
  };

  const loop = framed(watch, draw);
  const stops = [
    effect(() => {
      const shown = state.shown.value;
      shown.forEach((model, at) => load(at, model, state.image.value));
    }),
    effect(() => {
      render(frame(), root); // reads no signal that changes with every hover

      loop.again();
    }),
    loop.stop,
  ];
  const observer = new ResizeObserver(() => loop.again());
  observer.observe(root);
  return () => {
    stops.forEach((stop) => stop());
    observer.disconnect();
    render(nothing, root);
  };
}
