// Small figures as SVG: the plane of heads, heat maps, spreads by layer, effects with intervals.

import {html, nothing, svg} from 'lit-html';
import {isDark, layerColour, viridis} from './colour.js';
import {contents} from './state.js';
import {linear} from './scale.js';
import {metricName, number} from './words.js';
/** @import {Box} from './brush.js' */

/**
 * A head as a point of the plane.
 * @typedef {object} Point
 * @property {number} model 0 or 1
 * @property {number} layer
 * @property {number} head
 * @property {number} mad
 * @property {number} entropy
 * @property {number} self_mass
 * @property {string} name
 * @property {boolean} chosen
 */

export const PLANE = {width: 460, height: 370, left: 44, right: 12, top: 36, bottom: 40};
export const planeX = linear([0, 0.6], [PLANE.left, PLANE.width - PLANE.right]);
export const planeY = linear([0, 1], [PLANE.height - PLANE.bottom, PLANE.top]);

/** A circle for the first model, a triangle for the second. */
function mark(/** @type {Point} */ point, /** @type {number} */ numLayers,
  /** @type {(point: Point) => void} */ open) {
  const x = planeX.at(Math.min(point.mad, 0.6)), y = planeY.at(point.entropy);
  const fill = layerColour(point.layer, numLayers);
  const shape = point.model === 0
    ? svg`<circle cx=${x} cy=${y} r="4.5" fill=${fill}/>`
    : svg`<path d="M${x} ${y - 5.5}l5 9h-10z" fill=${fill}/>`;
  return svg`<g class="mark ${point.chosen ? '' : 'faded'}" data-head="${point.model}.${point.layer + 1}.${point.head + 1}"
    @click=${() => open(point)}>${shape}<title>layer ${point.layer + 1}, head ${point.head + 1}: MAD ${number(point.mad)}, entropy ${number(point.entropy)}${point.name ? `, ${point.name}` : ''}</title></g>`;
}

/**
 * The null lines, each with the lowest level above the plane at which its name meets no other.
 * @param {{name: string, mad: number}[]} nulls
 */
function levelled(nulls) {
  /** @type {number[]} */
  const ends = [];
  return [...nulls].sort((x, y) => x.mad - y.mad).map((line) => {
    const start = planeX.at(line.mad);
    const free = ends.findIndex((end) => end < start);
    const level = free < 0 ? ends.length : free;
    ends[level] = start + 8 + 6 * line.name.length;
    return {...line, level};
  });
}

/**
 * The plane of MAD and entropy, a mark per head, null lines named at the line.
 * @param {Point[]} points
 * @param {number[]} numLayers of each model
 * @param {{name: string, mad: number}[]} nulls
 * @param {(point: Point) => void} open
 * @param {Box | null} box what is brushed
 * @param {(event: PointerEvent) => void} press begin to brush
 */
export function plane(points, numLayers, nulls, open, box, press) {
  const {width, height, left, right, top, bottom} = PLANE;
  return svg`<svg class="plane" viewBox="0 0 ${width} ${height}" role="group" aria-label="MAD and entropy of every head">
    ${planeX.ticks(6).map((tick) => svg`<text x=${planeX.at(tick)} y=${height - bottom + 16} text-anchor="middle">${tick}</text>
      <line class="tick" x1=${planeX.at(tick)} x2=${planeX.at(tick)} y1=${height - bottom} y2=${height - bottom + 4}/>`)}
    ${planeY.ticks(5).map((tick) => svg`<text x=${left - 8} y=${planeY.at(tick) + 4} text-anchor="end">${tick}</text>
      <line class="tick" x1=${left - 4} x2=${left} y1=${planeY.at(tick)} y2=${planeY.at(tick)}/>`)}
    <path class="axis" d="M${left} ${top}V${height - bottom}H${width - right}"/>
    <text x=${(left + width - right) / 2} y=${height - 4} text-anchor="middle">${contents.value.metrics.mad.axis}</text>
    <text transform="translate(12 ${(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle">${contents.value.metrics.entropy.axis}</text>
    ${levelled(nulls).map(({name, mad, level}) => svg`<line class="null" x1=${planeX.at(mad)} x2=${planeX.at(mad)} y1=${top} y2=${height - bottom}/>
      <text class="null" x=${planeX.at(mad) + 3} y=${top - 3 - 11 * level}>${name}</text>`)}
    <g class="brush" @pointerdown=${press}><rect class="ground" x=${left} y=${top} width=${width - left - right} height=${height - top - bottom}/>
      ${box ? svg`<rect class="selection" x=${box[0]} y=${box[2]} width=${box[1] - box[0]} height=${box[3] - box[2]}/>` : nothing}</g>
    <g class="marks">${points.map((point) => mark(point, numLayers[point.model], open))}</g>
  </svg>`;
}

/**
 * One metric of every head, layers from top to bottom, on the scale that every page has.
 * @param {string} metric
 * @param {Point[][]} rows by layer
 * @param {(point: Point) => number} value
 * @param {string} order what the columns are
 * @param {(point: Point) => void} open
 */
export function heatMap(metric, rows, value, order, open) {
  const most = Math.max(...rows.map((row) => row.length));
  const cell = most > 10 ? 20 : 34, high = most > 10 ? 16 : 20;
  const left = 34, top = 4, width = left + most * cell + 6, height = top + rows.length * high + 18;
  const limit = contents.value.metrics[metric]?.top ?? 1; // the same on every page
  return html`<figure class="heat"><figcaption>${metricName(metric)} <small>0 to ${limit}</small></figcaption>
    <svg viewBox="0 0 ${width} ${height}" width=${width} height=${height} role="img"
      aria-label="${metricName(metric)} of every head, with a row for each layer">
    ${rows.map((row, layer) => svg`<text x=${left - 6} y=${top + layer * high + high / 2 + 4} text-anchor="end">${row[0].layer + 1}</text>
      ${row.map((point, column) => {
        const found = value(point), share = found / limit;
        const x = left + column * cell, y = top + layer * high;
        return svg`<g class="cell ${point.chosen ? '' : 'faded'}" @click=${() => open(point)}
          data-head="${point.model}.${point.layer + 1}.${point.head + 1}">
          <rect x=${x} y=${y} width=${cell - 1} height=${high - 1} fill=${viridis(share)}/>
          ${most > 10 ? nothing : svg`<text x=${x + cell / 2} y=${y + high / 2 + 3.5} text-anchor="middle"
            class="inside" fill=${isDark(share) ? '#fff' : '#000'}>${found.toFixed(2)}</text>`}
          <title>layer ${point.layer + 1}, head ${point.head + 1}: ${number(found)}</title></g>`;
      })}`)}
    <text x=${left + (most * cell) / 2} y=${height - 4} text-anchor="middle">${order}</text>
    <text transform="translate(9 ${top + (rows.length * high) / 2}) rotate(-90)" text-anchor="middle">layer</text></svg></figure>`;
}

/**
 * A spread of numbers in every layer: 5 to 95 % thin, 25 to 75 % thick, a dot at the mean.
 * @param {string} title
 * @param {({mean: number, percentiles: number[]} | null)[]} layers
 * @param {string} unit
 */
export function spreads(title, layers, unit) {
  const known = layers.filter((layer) => layer !== null);
  const high = Math.max(...known.map(({percentiles}) => percentiles[4]));
  const width = 40 + 26 * layers.length, height = 170;
  const y = linear([0, high || 1], [height - 30, 10], 4);
  const x = (/** @type {number} */ layer) => 46 + 26 * layer;
  return html`<figure class="spread"><figcaption>${title} <small>${unit}; thin line: 5 to 95 %, thick line: 25 to 75 %, dot: mean</small></figcaption>
    <svg viewBox="0 0 ${width} ${height}" width=${width} height=${height} role="img" aria-label="${title} by layer">
    ${y.ticks(4).map((tick) => svg`<text x="26" y=${y.at(tick) + 4} text-anchor="end">${tick}</text>
      <line class="rule" x1="30" x2=${width} y1=${y.at(tick)} y2=${y.at(tick)}/>`)}
    ${layers.map((layer, index) => layer && svg`
      <line class="thin" x1=${x(index)} x2=${x(index)} y1=${y.at(layer.percentiles[0])} y2=${y.at(layer.percentiles[4])}/>
      <line class="thick" x1=${x(index)} x2=${x(index)} y1=${y.at(layer.percentiles[1])} y2=${y.at(layer.percentiles[3])}/>
      <circle cx=${x(index)} cy=${y.at(layer.mean)} r="3.5"/>
      <text x=${x(index)} y=${height - 12} text-anchor="middle">${index + 1}</text>`)}
    <text x=${width / 2} y=${height - 1} text-anchor="middle">layer</text></svg></figure>`;
}

/**
 * Numbers with intervals, one below the other, and a line at 0.
 * @param {{label: string, estimate: number[]}[]} rows value, low, high
 * @param {string} title
 */
export function whiskers(rows, title) {
  const ends = rows.flatMap(({estimate}) => estimate).filter(Number.isFinite);
  const longest = Math.max(0, ...rows.map(({label}) => label.length));
  const left = Math.min(460, 24 + 6.2 * longest), width = left + 390, high = 22, height = rows.length * high + 34;
  const x = linear([Math.min(0, ...ends), Math.max(0, ...ends)], [left, width - 16], 6);
  return html`<figure class="whiskers"><figcaption>${title}</figcaption>
    <svg viewBox="0 0 ${width} ${height}" width=${width} height=${height} role="img" aria-label="${title}: values with 95 % intervals">
    <line class="null" x1=${x.at(0)} x2=${x.at(0)} y1="4" y2=${height - 26}/>
    ${x.ticks(6).map((tick) => svg`<text x=${x.at(tick)} y=${height - 8} text-anchor="middle">${tick}</text>`)}
    ${rows.map(({label, estimate: [value, low, top]}, index) => {
      const y = 16 + index * high;
      const apart = low > 0 || top < 0;
      return svg`<g class=${apart ? 'apart' : 'open'}>
        <text x=${left - 12} y=${y + 4} text-anchor="end">${label}</text>
        <line class="thin" x1=${x.at(low)} x2=${x.at(top)} y1=${y} y2=${y}/>
        <circle cx=${x.at(value)} cy=${y} r="4"/><title>${label}: ${number(value)} (${number(low)} to ${number(top)})</title></g>`;
    })}</svg></figure>`;
}
