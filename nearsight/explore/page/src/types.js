// What the page gets as JSON (see exploration.py), as types only: this file has no code.

/**
 * Where the queries and keys of a layer are: the same for every image.
 * @typedef {object} Places
 * @property {string} name
 * @property {[number, number]} grid rows and columns of the query patches
 * @property {number} num_heads
 * @property {number} query_prefix prefix tokens among the queries
 * @property {number} key_prefix prefix tokens among the keys
 * @property {number[]} key_rows rows of the cells, in rows of the grid
 * @property {number[]} key_cols
 * @property {number} num_keys cells that a query can see
 * @property {number | null} feature_prefix prefix tokens among the features; null without features
 */

/**
 * @typedef {object} ExampleImage
 * @property {string} name
 * @property {string} source data: address of the picture
 * @property {string} bytes base64 of gzip: attention and features of all layers
 */

/**
 * @typedef {object} Examples
 * @property {string[]} prefix_names
 * @property {Places[]} layers
 * @property {ExampleImage[]} images
 */

/** @typedef {'mad' | 'entropy' | 'self_mass'} Metric */

/** @typedef {{mean: number[][], low?: number[][], high?: number[][]}} Estimates per layer and head */

/** @typedef {{mean: number, percentiles: number[]}} Spread percentiles 5, 25, 50, 75, 95 */

/**
 * A quantity of a part of the model: a number per head, or a spread, by layer.
 * @typedef {{kind: 'head', layers: (number[] | null)[]} | {kind: 'spread', layers: (Spread | null)[]}} ByLayer
 * @typedef {ByLayer & {title: string, unit: string, note: string}} ReadOut
 */

/**
 * @typedef {object} Numbers
 * @property {number} num_images
 * @property {Estimates} mad
 * @property {Estimates} entropy
 * @property {Estimates} self_mass
 * @property {string[][] | null} names
 * @property {{name: string, mad: number, entropy: number, self_mass: number}[]} null
 * @property {ReadOut[]} read_outs
 */

/**
 * The heads of a run at some epoch while it trained.
 * @typedef {object} Look
 * @property {number} epoch
 * @property {number} num_images
 * @property {number[][]} mad
 * @property {number[][]} entropy
 * @property {number[][]} self_mass
 * @property {ReadOut[]} read_outs
 */

/**
 * @typedef {object} Model
 * @property {string} name
 * @property {string} detail
 * @property {Examples | null} examples
 * @property {Numbers | null} numbers
 * @property {Look[]} looks
 * @property {string} note
 * @property {string} [key] of a run that a server has
 */

/**
 * @typedef {object} Run
 * @property {string} name
 * @property {string} protocol
 * @property {string} model
 * @property {string} data
 * @property {number | null} seed
 * @property {string} status
 * @property {Record<string, number[]>} values value, low, high; or the value alone
 * @property {Record<string, string | number | boolean | null>} settings in which the runs differ
 * @property {{epoch: number[], train_loss: (number | null)[], validation_accuracy: (number | null)[],
 *   min_mad: (number | null)[]} | null} curve
 * @property {string} note
 * @property {string} [key] of a run that a server has
 */

/**
 * @typedef {object} Study
 * @property {string} name
 * @property {string} study
 * @property {string} question
 * @property {number} num_cells
 * @property {{value: string, condition: string, num_seeds: number, estimate: number[]}[]} conditions
 * @property {{value: string, factors: string[], num_seeds: number, p: number | null,
 *   estimate: number[]}[]} effects
 * @property {{id: string, source: string, sentence: string, paper: string, decision: string,
 *   reason: string, scale: string, claimed_scale: string}[]} claims
 * @property {string} note
 */

/** @typedef {{mostly: number, max_shift: number, max_spread: number, far: number}} Naming */

/**
 * @typedef {object} Contents
 * @property {string} version
 * @property {string} title
 * @property {Naming} naming thresholds of the names of heads
 * @property {Record<string, {label: string, axis: string, top: number}>} metrics
 * @property {{name: string, heading: string, percent: boolean, digits: number}[]} columns of runs
 * @property {Model[]} models
 * @property {Run[]} runs
 * @property {Study[]} studies
 * @property {{token: string} | null} [server] where the page was served and can ask for more
 */

export {};
