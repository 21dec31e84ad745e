// Runs and studies: a table to filter, sort, group and compare, with curves, effects and claims.

import {computed, effect, signal} from '@preact/signals-core';
import {html, nothing, render} from 'lit-html';
import {CURVES, drawCurves} from './curves.js';
import {whiskers} from './plots.js';
import {isServed, openRun} from './serving.js';
import * as state from './state.js';
import {cellOf, FACTS, filtered, groupedBy, meanOf, pattern, sortedBy} from './table.js';
import {counted, headingOf, interval, metricName, percent} from './words.js';
/** @import {Run, Study} from './types.js' */

const MOST_ROWS = 100, MOST_CURVES = 12;

const filter = signal('');
const sort = signal('name');
const descending = signal(false);
const group = signal('');
const more = signal(false);
const picked = signal(/** @type {string[]} */ ([]));
const curve = signal(CURVES[0]);
const study = signal(0);
const value = signal('min_mad');
const decision = signal('');

const asText = (/** @type {string} */ text) => text;
state.hold('q', filter, asText);
state.hold('sort', sort, asText);
state.hold('down', descending, state.asFlag, state.flagText);
state.hold('group', group, (text) => (groups.value.includes(text) ? text : undefined));
state.hold('runs', picked, (text) => text.split('\n').slice(0, 2), (names) => names.join('\n'));
state.hold('curve', curve, state.asWord(CURVES));
state.hold('study', study, state.asCount);
state.hold('effect', value, asText);
state.hold('verdict', decision, (text) => (state.contents.value.studies.some(({claims}) => claims.some((claim) => claim.decision === text)) ? text : undefined));

const runs = computed(() => state.contents.value.runs);
const rows = computed(() => sortedBy(filtered(runs.value, filter.value), sort.value, descending.value));
const columns = computed(() => [...state.contents.value.columns.map(({name}) => name), 'epochs'].filter((name) => runs.value.some((run) => run.values[name])));
const facts = computed(() => FACTS.filter((name) => name === 'name' || new Set(runs.value.map((run) => run[name])).size > 1));
const settings = computed(() => [...new Set(runs.value.flatMap((run) => Object.keys(run.settings)))]);
const groups = computed(() => [...facts.value.slice(1), ...settings.value.map((name) => `settings.${name}`)]);
const chosen = computed(() => picked.value.map((name) => runs.value.find((run) => run.name === name)).filter((x) => x !== undefined));

/**
 * @param {string} column
 * @returns {(value: number) => string}
 */
const textOf = (column) => {
  const found = state.contents.value.columns.find(({name}) => name === column);
  if (!found) return String;
  return found.percent ? percent : (value) => value.toFixed(found.digits).replace('-', '−');
};

/** @param {Run} run @param {string} column */
const valueText = (run, column) => run.values[column]
  ? html`<span title=${interval(run.values[column], textOf(column))}>${textOf(column)(run.values[column][0])}</span>` : '–';

function sortBy(/** @type {string} */ column) {
  if (sort.value === column) descending.value = !descending.value;
  else {
    sort.value = column;
    descending.value = false;
  }
}

const heading = (/** @type {string} */ column) => html`<th scope="col"
  aria-sort=${sort.value !== column ? 'none' : descending.value ? 'descending' : 'ascending'}>
  <button type="button" class="plain" @click=${() => sortBy(column)}>${headingOf(column)}</button></th>`;

function pick(/** @type {string} */ name) {
  const rest = picked.value.filter((other) => other !== name);
  picked.value = rest.length < picked.value.length ? rest : [...rest.slice(-1), name];
}

const runRow = (/** @type {Run} */ run) => html`<tr class=${run.status === 'damaged' ? 'damaged' : ''}>
  <td><input type="checkbox" aria-label="Compare ${run.name}" .checked=${picked.value.includes(run.name)} @change=${() => pick(run.name)}></td>
  ${facts.value.map((fact) => (fact === 'name'
    ? html`<th scope="row">${run.name}${run.note ? html` <small>${run.note}</small>` : nothing}
        ${isServed() && run.key ? html` <button type="button" class="plain" @click=${() => show(run, false)}>open</button>` : nothing}</th>`
    : html`<td>${run[fact] ?? '–'}</td>`))}
  ${columns.value.map((column) => html`<td class="value">${valueText(run, column)}</td>`)}</tr>`;

const groupRow = (/** @type {[string, Run[]]} */ [name, members]) => html`<tr>
  <th scope="row">${name} <small>${counted(members.length, 'run')}</small></th>
  ${columns.value.map((column) => {
    const found = meanOf(members, column);
    const text = textOf(column);
    return html`<td class="value">${found ? html`${text(found.mean)}${found.sd === null ? nothing : html` <small>± ${text(found.sd)}</small>`}` : '–'}</td>`;
  })}</tr>`;

async function show(/** @type {Run} */ run, /** @type {boolean} */ beside) {
  const message = document.querySelector('#message');
  try {
    if (message) message.textContent = `Loading ${run.name} …`;
    await openRun(run.key ?? '', beside);
    if (message) message.textContent = '';
    state.view.value = 'explorer';
  } catch (error) {
    if (message) message.textContent = error instanceof Error ? error.message : String(error);
  }
}

function table() {
  if (!runs.value.length) return nothing;
  const found = rows.value;
  const shown = more.value ? found : found.slice(0, MOST_ROWS);
  const grouped = group.value ? groupedBy(found, group.value, sort.value, descending.value) : null;
  const bad = filter.value && !pattern(filter.value);
  return html`<section aria-label="Runs"><h2>Runs</h2>
    <div class="filters">
      <label>Filter <input id="filter" type="search" placeholder="regular expression" .value=${filter.value} aria-invalid=${bad ? 'true' : 'false'}
        @input=${(/** @type {Event} */ event) => { filter.value = /** @type {HTMLInputElement} */ (event.target).value; }}></label>
      <label>Group by <select id="group" @change=${(/** @type {Event} */ event) => { group.value = /** @type {HTMLSelectElement} */ (event.target).value; }}>
        <option value="">nothing</option>${groups.value.map((column) =>
          html`<option value=${column} ?selected=${column === group.value}>${column.replace('settings.', '')}</option>`)}</select></label>
      <span class="note" role="status">${bad ? 'This is not a regular expression yet.' : `${found.length.toLocaleString('en')} of ${counted(runs.value.length, 'run')}`}</span></div>
    <div class="scroll" tabindex="0" role="region" aria-label="Table of runs"><table class="runs"><thead><tr>${grouped ? heading(group.value) : html`<td></td>${facts.value.map(heading)}`}${columns.value.map(heading)}</tr></thead>
    <tbody>${grouped ? grouped.map(groupRow) : shown.map(runRow)}</tbody></table></div>
    ${!grouped && found.length > MOST_ROWS ? html`<button type="button" @click=${() => { more.value = !more.value; }}>
      ${more.value ? `show the first ${MOST_ROWS}` : `show all ${found.length.toLocaleString('en')}`}</button>` : nothing}
    <p class="note">${grouped ? 'Mean ± standard deviation over the runs of a group.' : 'Point at a number for its 95 % interval over images. Tick two runs to compare them.'}</p>
    </section>`;
}

function comparison() {
  if (chosen.value.length !== 2) return nothing;
  const [x, y] = chosen.value;
  const differing = [...FACTS.slice(1), ...settings.value.map((name) => `settings.${name}`)]
    .filter((column) => String(cellOf(x, column)) !== String(cellOf(y, column)));
  return html`<section class="compare" aria-label="Comparison"><h2>Two runs</h2>
    ${isServed() ? html`<button type="button" @click=${async () => { await show(x, false); await show(y, true); }}>open both side by side</button>` : nothing}
    <div class="scroll" tabindex="0" role="region" aria-label="Comparison of two runs"><table class="numbers"><thead><tr><td></td><th scope="col">${x.name}</th><th scope="col">${y.name}</th><th scope="col">difference</th></tr></thead>
    <tbody>${differing.map((column) => html`<tr><th scope="row">${column.replace('settings.', '')}</th><td>${String(cellOf(x, column) ?? '–')}</td><td>${String(cellOf(y, column) ?? '–')}</td><td></td></tr>`)}
    ${columns.value.map((column) => {
      const both = x.values[column] && y.values[column];
      const text = textOf(column);
      return html`<tr><th scope="row">${headingOf(column)}</th>${[x, y].map((run) => html`<td>${run.values[column] ? interval(run.values[column], text) : '–'}</td>`)}
        <td>${both ? text(y.values[column][0] - x.values[column][0]) : ''}</td></tr>`;
    })}</tbody></table></div><p class="note">The intervals are 95 % intervals over images, which say nothing about other seeds.</p></section>`;
}

const shownCurves = computed(() => (chosen.value.length ? chosen.value : rows.value.filter((run) => run.curve).slice(0, MOST_CURVES)));

const curves = () => !runs.value.some((run) => run.curve) ? nothing : html`
  <section aria-label="Learning curves"><h2>Learning curves</h2>
  <div class="filters"><label>Show <select @change=${(/** @type {Event} */ event) => { curve.value = /** @type {any} */ (event.target).value; }}>
    ${CURVES.map((name) => html`<option value=${name} ?selected=${name === curve.value}>${metricName(name)}</option>`)}</select></label>
    <span class="note">${chosen.value.length ? 'The runs that are ticked.' : `The first ${MOST_CURVES} runs of the table.`} Drag over the figure to enlarge a part of it; double-click to show all of it.</span></div>
  <div id="curves"></div></section>`;

const factorText = (/** @type {string[]} */ factors) => factors.join(' × ');

function studyPart() {
  const {studies} = state.contents.value;
  if (!studies.length) return nothing;
  const found = studies[Math.min(study.value, studies.length - 1)];
  const values = [...new Set(found.effects.map((x) => x.value))];
  const shown = values.includes(value.value) ? value.value : values[0];
  return html`<section aria-label="Studies"><h2>Studies</h2>
    ${studies.length > 1 ? html`<label>Study <select @change=${(/** @type {Event} */ event) => { study.value = Number(/** @type {HTMLSelectElement} */ (event.target).value); }}>
      ${studies.map((each, index) => html`<option value=${index} ?selected=${index === study.value}>${each.name}</option>`)}</select></label>` : nothing}
    <p class="question">${found.question || found.study} <small>${counted(found.num_cells, 'run')} planned. ${found.note}</small></p>
    ${shown ? html`<div class="filters"><label>Effects on <select @change=${(/** @type {Event} */ event) => { value.value = /** @type {HTMLSelectElement} */ (event.target).value; }}>
      ${values.map((name) => html`<option value=${name} ?selected=${name === shown}>${headingOf(name)}</option>`)}</select></label></div>
      ${whiskers(found.effects.filter((x) => x.value === shown).map((x) => ({label: factorText(x.factors), estimate: x.estimate})), `Effects on ${headingOf(shown)}`)}
      <p class="note">Effects are on minus off, with 95 % intervals over ${counted(found.effects[0].num_seeds, 'seed')}. A mark is filled if its interval excludes 0.</p>
      ${whiskers(found.conditions.filter((x) => x.value === shown).map((x) => ({label: x.condition, estimate: x.estimate})), `${headingOf(shown)} of every condition`)}` : nothing}
    ${claims(found)}</section>`;
}

function claims(/** @type {Study} */ of) {
  if (!of.claims.length) return nothing;
  const decisions = [...new Set(of.claims.map((claim) => claim.decision))].sort();
  const shown = of.claims.filter((claim) => !decision.value || claim.decision === decision.value);
  return html`<h3>Claims of the papers</h3>
    <label>Verdict <select id="verdict" @change=${(/** @type {Event} */ event) => { decision.value = /** @type {HTMLSelectElement} */ (event.target).value; }}>
      <option value="">all ${of.claims.length}</option>${decisions.map((name) => html`<option value=${name} ?selected=${name === decision.value}>${name} (${of.claims.filter((claim) => claim.decision === name).length})</option>`)}</select></label>
    <div class="scroll" tabindex="0" role="region" aria-label="Claims"><table class="claims"><thead><tr><th scope="col">claim</th><th scope="col">paper</th><th scope="col">verdict here</th></tr></thead>
    <tbody>${shown.map((claim) => html`<tr><th scope="row">${claim.sentence}<small>${claim.source}</small></th><td>${claim.paper}</td>
      <td><b>${claim.decision}</b><details><summary>why</summary><p class="note">${claim.reason}</p></details></td></tr>`)}</tbody></table></div>`;
}

/**
 * @param {HTMLElement} root
 * @returns {() => void} end it
 */
export function mountRuns(root) {
  /** @type {import('uplot') | null} */
  let plot = null;
  const stops = [
    effect(() => {
      render(html`<div class="runs-view">${table()}${comparison()}${curves()}${studyPart()}</div>`, root);
    }),
    effect(() => {
      const [found, name] = [shownCurves.value, curve.value];
      const place = /** @type {HTMLElement | null} */ (root.querySelector('#curves'));
      plot?.destroy();
      plot = place && drawCurves(place, found, name);
    }),
  ];
  return () => {
    stops.forEach((stop) => stop());
    plot?.destroy();
    render(nothing, root);
  };
}
