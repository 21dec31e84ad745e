// The heads: the plane of MAD and entropy, heat maps of layers and heads, and both while a run trained.

import {batch, computed, effect, signal} from '@preact/signals-core';
import {html, nothing, render, svg} from 'lit-html';
import {startBrush} from './brush.js';
import {heatMap, plane, PLANE, planeX, planeY, spreads} from './plots.js';
import * as state from './state.js';
import {counted, interval, metricName, number} from './words.js';
/** @import {Look, Metric, Model} from './types.js' */
/** @import {Point} from './plots.js' */

const METRICS = /** @type {Metric[]} */ (['mad', 'entropy', 'self_mass']);
const STEP_TIME = 500; // ms that each look is shown while the epochs play

/** The box drawn over the plane: MAD from and to, entropy from and to. */
const brushed = signal(/** @type {[number, number, number, number] | null} */ (null));
const sorted = signal(/** @type {'head' | Metric} */ ('head'));
const name = signal('');
const furthest = signal(/** @type {number | null} */ (null));
const listBy = signal(/** @type {'layer' | Metric} */ ('mad'));

state.hold('box', brushed, (text) => {
  const found = text.split(',').map(Number);
  return found.length === 4 && found.every(Number.isFinite) ? /** @type {[number, number, number, number]} */ (found) : undefined;
}, (box) => (box ? box.map((x) => x.toFixed(4)).join(',') : ''));
state.hold('order', sorted, state.asWord(['head', ...METRICS]));
state.hold('name', name, (text) => (state.models.value.some(({numbers}) => numbers?.names?.flat().includes(text)) ? text : undefined));
state.hold('mad', furthest, (text) => (Number(text) >= 0 ? Number(text) : undefined));
state.hold('list', listBy, state.asWord(['layer', ...METRICS]));

/** The models on show that have numbers. */
const measured = computed(() => {
  const chosen = state.b.value === null ? [state.a.value] : [state.a.value, state.b.value];
  return chosen.map((index) => state.models.value[index]).filter((x) => x?.numbers || x?.looks.length);
});

/** The epochs at which some shown model was measured while it trained. */
const epochs = computed(() =>
  [...new Set(measured.value.flatMap(({looks}) => looks.map(({epoch}) => epoch)))].sort((x, y) => x - y));

/**
 * The numbers of a model at an epoch: those of its last look until then, or its own at the end.
 * @param {Model} model
 * @param {number | null} epoch
 * @returns {{mad: number[][], entropy: number[][], self_mass: number[][], read_outs: Look['read_outs'], at: string} | null}
 */
function numbersAt({numbers, looks}, epoch) {
  const until = looks.filter((each) => epoch === null || each.epoch <= epoch);
  const last = until[until.length - 1];
  if (epoch !== null && last) {
    return {...last, at: `epoch ${last.epoch}, ${counted(last.num_images, 'validation image')}`};
  }
  if (numbers) {
    const {mad, entropy, self_mass, read_outs, num_images} = numbers;
    return {mad: mad.mean, entropy: entropy.mean, self_mass: self_mass.mean, read_outs, at: counted(num_images, 'image')};
  }
  return last ? {...last, at: `epoch ${last.epoch}`} : null;
}

/** @param {{mad: number, entropy: number, name: string}} head */
function isChosen({mad, entropy, name: own}) {
  const within = brushed.value;
  return (!within || (mad >= within[0] && mad <= within[1] && entropy >= within[2] && entropy <= within[3])) &&
    (!name.value || own === name.value) && (furthest.value === null || mad <= furthest.value);
}

/** Every head of the models on show, by model and layer. */
const heads = computed(() => measured.value.map((model, at) => {
  const found = numbersAt(model, state.look.value);
  const names = state.look.value === null ? model.numbers?.names : null;
  return (found?.mad ?? []).map((row, layer) => row.map((mad, head) => {
    const point = {
      model: at, layer, head, mad, entropy: found?.entropy[layer][head] ?? 0,
      self_mass: found?.self_mass[layer][head] ?? 0, name: names?.[layer]?.[head] ?? '', chosen: true,
    };
    return {...point, chosen: isChosen(point)};
  }));
}));

/** @param {Point} point */
function open(point) {
  const model = measured.value[point.model];
  if (!model.examples) return;
  batch(() => {
    state.layer.value = point.layer;
    state.head.value = point.head;
    state.view.value = 'explorer';
  });
  state.settle();
}

/** @param {Point[][]} rows */
function inOrder(rows) {
  const by = sorted.value;
  return by === 'head' ? rows : rows.map((row) => [...row].sort((x, y) => x[by] - y[by]));
}

function epochSlider() {
  if (!epochs.value.length) return nothing;
  const steps = epochs.value.length; // the last step is the end of training
  const at = state.look.value === null ? steps : epochs.value.filter((epoch) => epoch <= Number(state.look.value)).length - 1;
  return html`<div class="epochs"><label>Epoch
      <input id="epoch" type="range" min="0" max=${steps} step="1" .value=${String(at)}
        aria-valuetext=${state.look.value === null ? 'end of training' : `epoch ${state.look.value}`}
        @input=${(/** @type {Event} */ event) => {
          const step = Number(/** @type {HTMLInputElement} */ (event.target).value);
          state.look.value = step === steps ? null : epochs.value[step];
        }}></label>
    <output>${state.look.value === null ? 'end of training, as measured' : `epoch ${state.look.value}`}</output>
    <button type="button" @click=${play}>play</button></div>`;
}

/** Go through the epochs, one look after the other. */
function play() {
  let step = 0;
  const next = () => {
    if (state.view.value !== 'heads') return;
    state.look.value = step < epochs.value.length ? epochs.value[step] : null;
    if (step++ < epochs.value.length) setTimeout(next, STEP_TIME);
  };
  next();
}

const names = () => [...new Set(heads.value.flat(2).map((point) => point.name).filter(Boolean))].sort();

const choice = (/** @type {string} */ label, /** @type {string[]} */ values, /** @type {import('@preact/signals-core').Signal<any>} */ of,
  /** @type {(value: string) => string} */ text) => html`
  <label>${label} <select @change=${(/** @type {Event} */ event) => { of.value = /** @type {HTMLSelectElement} */ (event.target).value; }}>
    ${values.map((value) => html`<option value=${value} ?selected=${value === of.value}>${text(value)}</option>`)}</select></label>`;

function filters() {
  return html`<div class="filters">
    ${choice('Heads in a layer', ['head', ...METRICS], sorted, (value) => (value === 'head' ? 'in their order' : `sorted by ${metricName(value)}`))}
    ${names().length ? choice('Only', ['', ...names()], name, (value) => value || 'all heads') : nothing}
    <label>MAD at most <input type="number" min="0" max="1" step="0.01" .value=${furthest.value === null ? '' : String(furthest.value)}
      @input=${(/** @type {Event} */ event) => {
        const {value} = /** @type {HTMLInputElement} */ (event.target);
        furthest.value = value === '' ? null : Number(value);
      }}></label>
    ${brushed.value ? html`<button type="button" @click=${() => { brushed.value = null; }}>clear the brush</button>` : nothing}</div>`;
}

function list() {
  const by = listBy.value;
  const points = heads.value.flat(2).filter((point) => point.chosen)
    .sort((x, y) => (by === 'layer' ? x.layer - y.layer || x.head - y.head : x[by] - y[by]));
  const header = (/** @type {'layer' | Metric} */ key, /** @type {string} */ label) => html`
    <th scope="col" aria-sort=${by === key ? 'ascending' : 'none'}><button type="button" class="plain"
      @click=${() => { listBy.value = key; }}>${label}</button></th>`;
  const cell = (/** @type {Point} */ point, /** @type {Metric} */ metric) => {
    const over = state.look.value === null ? measured.value[point.model].numbers?.[metric] : null;
    return over?.low && over.high
      ? interval([point[metric], over.low[point.layer][point.head], over.high[point.layer][point.head]])
      : number(point[metric]);
  };
  return html`<details class="list"><summary>${counted(points.length, 'head')} chosen, as a table</summary>
    <div class="scroll" tabindex="0" role="region" aria-label="Chosen heads"><table class="numbers"><thead><tr>
    ${measured.value.length > 1 ? html`<th scope="col">model</th>` : nothing}${header('layer', 'layer.head')}
    ${METRICS.map((metric) => header(metric, metricName(metric)))}<th scope="col">name</th><td></td></tr></thead>
    <tbody>${points.map((point) => html`<tr>${measured.value.length > 1 ? html`<td>${measured.value[point.model].name}</td>` : nothing}
      <th scope="row">${point.layer + 1}.${point.head + 1}</th>
      ${METRICS.map((metric) => html`<td>${cell(point, metric)}</td>`)}<td>${point.name}</td>
      <td>${measured.value[point.model].examples ? html`<button type="button" class="plain" @click=${() => open(point)}>open</button>` : nothing}</td></tr>`)}</tbody></table></div></details>`;
}

function modelPart(/** @type {Model} */ model, /** @type {number} */ at) {
  const found = numbersAt(model, state.look.value);
  if (!found) return nothing;
  const rows = inOrder(heads.value[at]);
  const order = sorted.value === 'head' ? 'head' : `head, sorted by ${metricName(sorted.value)}`;
  // a look while training has some of the read-outs; the others are as at the end
  const ofLook = new Set(found.read_outs.map(({title}) => title));
  const readOuts = [...found.read_outs, ...(model.numbers?.read_outs ?? []).filter(({title}) => !ofLook.has(title))];
  return html`<section class="model" aria-label=${model.name}>
    <h2><svg class="key" viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">${at === 0
      ? svg`<circle cx="6" cy="6" r="4.5"/>` : svg`<path d="M6 1l5 9h-10z"/>`}</svg>
      ${model.name} <small>${found.at}</small></h2>
    <div class="heats">${METRICS.map((metric) => heatMap(metric, rows, (point) => point[metric], order, open))}
      ${readOuts.map((each) => (each.kind === 'head'
        ? heatMap(each.title, rows.filter((_, layer) => each.layers[layer]), (point) => each.layers[point.layer]?.[point.head] ?? 0, order, open)
        : spreads(each.title, each.layers, each.unit)))}</div>
    ${readOuts.map(({note}) => (note ? html`<p class="note">${note}</p>` : nothing))}
  </section>`;
}

/** What is brushed, as a box of the plane. */
const box = () => brushed.value && /** @type {import('./brush.js').Box} */ (
  [planeX.at(brushed.value[0]), planeX.at(brushed.value[1]), planeY.at(brushed.value[3]), planeY.at(brushed.value[2])]);

/** @param {PointerEvent} event */
function press(event) {
  const {left, right, top, bottom, width, height} = PLANE;
  startBrush(event, [left, width - right, top, height - bottom], box(), (found) => {
    brushed.value = found &&
      [planeX.value(found[0]), planeX.value(found[1]), planeY.value(found[3]), planeY.value(found[2])];
  });
}

const frame = () => measured.value.length === 0
  ? html`<p class="empty">No model on this page was measured.</p>`
  : html`<div class="heads">
    <p class="intro">A mark is a head. Heads further left attend closer by, and heads further down attend to fewer
      patches. Drag over the plane to choose heads, which stay bright in the heat maps; click a head to see its
      attention.</p>
    ${epochSlider()}${filters()}
    <div class="upper">${plane(heads.value.flat(2), heads.value.map((rows) => rows.length), measured.value[0].numbers?.null ?? [], open, box(), press)}
      <p class="note">The colour is the layer; the first layer is darkest.${measured.value.length > 1
        ? ` Circles are heads of ${measured.value[0].name}, triangles heads of ${measured.value[1].name}.` : ''}
        ${measured.value[0].numbers?.null.length ? `Grey lines show the MAD to compare with: ${measured.value[0].numbers.null
          .map((line) => line.name).join(', ')}.` : ''}</p></div>
    ${measured.value.map(modelPart)}${list()}</div>`;

/**
 * @param {HTMLElement} root
 * @returns {() => void} end it
 */
export function mountHeads(root) {
  const stop = effect(() => {
    render(frame(), root);
  });
  return () => {
    stop();
    render(nothing, root);
  };
}
