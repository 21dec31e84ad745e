// Numbers and places in words.

/** @param {number} value */
export const number = (value) => value.toFixed(3).replace('-', '−');

/** @param {number} share */
export const percent = (share) => `${(100 * share).toFixed(1)} %`;

/**
 * A number with its interval, where it has one.
 * @param {number[]} estimate value, low, high
 * @param {(value: number) => string} [text]
 */
export const interval = ([value, low, high], text = number) =>
  low === undefined || high === undefined ? text(value) : `${text(value)} (${text(low)} to ${text(high)})`;

/**
 * A patch by its row and column, counted from 1.
 * @param {number} patch
 * @param {number} cols
 */
export const place = (patch, cols) => `row ${Math.floor(patch / cols) + 1}, column ${(patch % cols) + 1}`;

/** @param {string} setting */
export const metricName = (setting) =>
  ({
    mad: 'MAD', entropy: 'entropy', self_mass: 'self-mass', min_mad: 'min MAD', mean_mad: 'mean MAD',
    layer1_mad: 'layer-1 MAD', accuracy: 'accuracy', epochs: 'epochs', train_loss: 'training loss',
    validation_accuracy: 'validation accuracy',
  })[setting] ?? setting.replaceAll('_', ' ');

/**
 * @param {number} count
 * @param {string} noun
 */
export const counted = (count, noun) => `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
