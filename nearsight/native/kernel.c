/* Sum distance, entropy and near masses over attention rows without storing the attention matrix.

   calls.py calls this code through ctypes.

   Six queries are multiplied with two registers of keys at a time. The logits of these rows
   stay in the first cache, where they become weights and are summed. A softmax usually subtracts
   the largest logit of a row first. Here this is left out if the lengths of queries and keys show
   that no logit can be large, which holds for all of them in a trained ViT-Ti.

   The results agree with those of blocks.py, which uses torch, up to rounding of the same size:
   products and sums over keys are float32, sums over rows float64 (near masses are summed in
   float32 over the rows of one job, a few hundred).

   Logits are divided by log 2, so that a weight is simply a power of two. If the largest logit of a
   row is huge (for example because a mask hides every key by adding a large number), this division
   would round differently from the layer, so such a row is computed again without it. */

#include "floats.h"

enum { QUERIES = 6, KEYS = 2 * WIDE, LINE = 16 };
enum { FILL = 2 * LANES }; /* rows are filled up to a multiple of this, with weights of about 0 */

#define MANY 100000 /* how many floats of keys fit into a second cache of 512 KiB */
#define LN_2 0.6931471805599453

/* If no logit of a row can exceed this bound, its largest logit is not subtracted. The rounding
   error of the mean logit grows with the logits, and faster on processors that round a product
   before they add it (those without FMA), hence two bounds. */
#if defined(AVX2) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define BOUND 64.0f
#else
#define BOUND 16.0f
#endif

#define LARGE 256.0f /* if the largest logit of a row exceeds this, the row is computed again */

/* How many queries are multiplied with a tile of keys before the next tile is loaded. Six fit into
   registers. If the keys do not fit into the second cache, four groups of six use a tile while it
   is in the first cache. */
INLINE int64_t most_queries(const Attention *given)
{
    return given->num_keys * given->width > MANY ? 4 * QUERIES : QUERIES;
}

INLINE int64_t rounded_up(int64_t number, int64_t unit)
{
    return (number + unit - 1) / unit * unit;
}

/* Ask the processor to load a token ahead of its use. Tokens of one head are far apart in memory,
   so it would not load the next one by itself. */
INLINE void fetch(const float *token, int64_t width)
{
    for (int64_t at = 0; at < width; at += LINE)
        __builtin_prefetch(token + at);
}

/* Write the numbers of ``num`` tokens side by side, [width, num], multiplied by ``unit``. If only
   ``there`` tokens exist, the last one is repeated. */
INLINE void interleave(
    const float *tokens, int64_t stride, int64_t there, int num, int64_t width, float unit,
    float *to)
{
    const float *from[KEYS];
    for (int token = 0; token < num; token++)
        from[token] = tokens + (token < there ? token : there - 1) * stride;
    for (int64_t at = 0; at < width; at++)
#pragma GCC unroll 32
        for (int token = 0; token < num; token++)
            *to++ = from[token][at] * unit;
}

/* Write the keys as tiles of two registers, [tile, width, KEYS]. */
INLINE void pack(const float *keys, int64_t stride, int64_t num, int64_t width, float *packed)
{
    for (int64_t first = 0; first < num; first += KEYS, packed += KEYS * width) {
        for (int64_t key = first + KEYS; key < first + 2 * KEYS && key < num; key++)
            fetch(keys + key * stride, width);
        interleave(keys + first * stride, stride, num - first, KEYS, width, 1, packed);
    }
}

/* Write the logits [query, stride] of ``sixes`` groups of six packed queries with all tiles of
   keys. */
INLINE void multiply(
    const float *queries, int64_t sixes, const float *packed, int64_t width, int64_t stride,
    float *logits)
{
    for (int64_t tile = 0; tile < stride / KEYS * sixes; tile++) {
        int64_t first = tile / sixes * KEYS, six = tile % sixes * QUERIES;
        const float *here = queries + six * width, *keys = packed + first * width;
        WideFloats left[QUERIES] = {{0}}, right[QUERIES] = {{0}};
        for (int64_t at = 0; at < width; at++) {
            WideFloats a = load_wide(keys + at * KEYS), b = load_wide(keys + at * KEYS + WIDE);
#pragma GCC unroll 6
            for (int row = 0; row < QUERIES; row++) {
                left[row] += here[at * QUERIES + row] * a;
                right[row] += here[at * QUERIES + row] * b;
            }
        }
        for (int row = 0; row < QUERIES; row++) {
            store_wide(logits + (six + row) * stride + first, left[row]);
            store_wide(logits + (six + row) * stride + first + WIDE, right[row]);
        }
    }
}

/* The sum of eight numbers. */
INLINE float sum_of(Floats x)
{
    float four[4];
    for (int lane = 0; lane < 4; lane++)
        four[lane] = x[lane] + x[lane + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

/* The squared length of the longest token. */
INLINE float longest(const float *tokens, int64_t stride, int64_t num, int64_t width)
{
    float most = 0;
    for (int64_t token = 0; token < num; token++, tokens += stride) {
        Floats squares = {0};
        int64_t at = 0;
        for (; at + LANES <= width; at += LANES)
            squares += load(tokens + at) * load(tokens + at);
        float square = sum_of(squares);
        for (; at < width; at++)
            square += tokens[at] * tokens[at];
        most = square > most ? square : most;
    }
    return most;
}

/* The largest logit of a row. */
INLINE float peak(const float *row, int64_t padded)
{
    Floats most = load(row);
    for (int64_t key = LANES; key < padded; key += LANES)
        most = larger(most, load(row + key));
    float top = most[0];
    for (int lane = 1; lane < LANES; lane++)
        top = most[lane] > top ? most[lane] : top;
    return top;
}

/* Subtract the largest logit ``top`` from the logits of a row, so that its weight is one, multiply
   them by ``unit``, and raise those below SMALLEST to it. A NaN stays NaN; if every logit is -inf,
   the whole row becomes NaN. */
INLINE void lower(float *row, int64_t padded, float top, float unit)
{
    for (int64_t key = 0; key < padded; key += LANES)
        store(row + key, larger((load(row + key) - top) * unit, (Floats){0} + SMALLEST));
}

/* Write the logits of one query as torch computes them: the product with every key, times the
   scale, plus the bias. The keys that only fill up the last tile get -inf. */
INLINE void write_plain_logits(
    const float *query, const float *packed, const float *bias, float scale, int64_t width,
    int64_t num_keys, int64_t padded, float *row)
{
    for (int64_t first = 0; first < padded; first += LANES) {
        const float *keys = packed + first / KEYS * KEYS * width + first % KEYS;
        Floats sum = {0};
        for (int64_t at = 0; at < width; at++)
            sum += query[at] * load(keys + at * KEYS);
        store(row + first, sum * scale);
    }
    for (int64_t key = 0; bias && key < num_keys; key++)
        row[key] += bias[key];
    for (int64_t key = num_keys; key < padded; key++)
        row[key] = -INFINITY;
}

/* Add the weights of eight keys to ``masses``, and weights times logits, from which the entropy
   follows, to ``logits``. Return the weights. */
INLINE Floats add_weights(
    const float *row, const float *weights, int64_t key, Floats *masses, Floats *logits)
{
    Floats here = load(weights + key);
    *masses += here;
    *logits += here * load(row + key);
    return here;
}

/* The part of the tables that belongs to one window. */
typedef struct {
    const float *distances, *taken;
    const int64_t *near;
} Window;

/* Turn the logits of a row, divided by log 2, into weights. Add the row's distance and its entropy
   in nats to ``sums``, and the weight in every slot to ``slots``. */
INLINE void add_row(
    const float *row, float *weights, const Attention *given, int64_t padded, const Window *window,
    int64_t query, double *sums, float *slots)
{
    for (int64_t at = 0; at < padded; at += WIDE)
        store_wide(weights + at, power_of_two(load_wide(row + at)));
    int64_t columns = given->columns, stretch = columns ? columns : given->num_keys;
    int64_t grid_row = columns ? query / columns : 0, step = columns ? 2 * columns - 1 : 0;
    const float *distances =
        window->distances + (columns ? columns - 1 - query % columns : query * given->num_keys);
    Floats masses = {0}, logits = {0}, attended = {0};
    int64_t whole = given->num_keys / LANES * LANES, key = 0;
    for (int64_t below = -grid_row; key < whole; below++) { /* how far a row is below the query's */
        const float *far = distances + (below < 0 ? -below : below) * step;
        int64_t end = key + stretch < whole ? key + stretch : whole;
        for (; key < end; key += LANES, far += LANES)
            attended += load(far) * add_weights(row, weights, key, &masses, &logits);
    }
    for (; key < padded; key += LANES)
        add_weights(row, weights, key, &masses, &logits);
    float mass = sum_of(masses), distance = sum_of(attended), logit = sum_of(logits);
    float share = logit == logit ? 1 / mass : logit; /* the sum is NaN if any logit is */
    for (key = whole; key < given->num_keys; key++)
        distance += weights[key] * distances[key];

    int exponent;
    double log2_mass = log2f(frexpf(mass, &exponent)) + (double)exponent;
    sums[0] += distance * share;
    sums[1] += LN_2 * (log2_mass - (double)logit / mass);
    const int64_t *near = window->near + query * given->slots;
    const float *taken = window->taken + query * given->slots;
    for (int64_t slot = 0; slot < given->slots; slot++)
        slots[slot] += weights[near[slot]] * taken[slot] * share;
}

/* Write the sums [2 + slots] of the queries from ``first`` to before ``last`` of one head, in one
   window of one image. ``room`` is working memory. */
INLINE void add_rows(
    const Attention *given, const float *queries, const float *keys, const float *bias,
    const Window *window, int64_t first, int64_t last, float *room, double *sums)
{
    int64_t width = given->width, num_keys = given->num_keys;
    int64_t padded = rounded_up(num_keys, FILL), stride = rounded_up(num_keys, KEYS);
    int64_t query_stride = given->queries.token, key_stride = given->keys.token;
    int64_t most = most_queries(given);
    float *packed = room, *some = packed + stride * width, *logits = some + most * width;
    float *weights = logits + most * stride, *slots = weights + stride;
    pack(keys, key_stride, num_keys, width, packed);
    float unit = given->scale * LOG2_E;
    float most_square = unit * unit * longest(keys, key_stride, num_keys, width);
    for (int64_t slot = 0; slot < given->slots; slot++)
        slots[slot] = 0;
    sums[0] = sums[1] = 0;
    for (; first < last; first += most) {
        const float *start = queries + first * query_stride;
        int64_t rows = last - first < most ? last - first : most, sixes = 0;
        for (int64_t six = 0; six < rows; six += QUERIES, sixes++)
            interleave(
                start + six * query_stride, query_stride, rows - six, QUERIES, width, unit,
                some + six * width);
        for (int64_t query = first + most; query < first + 2 * most && query < last; query++)
            fetch(queries + query * query_stride, width);
        float square = longest(start, query_stride, rows, width);
        int bounded = !bias && square * most_square <= BOUND * BOUND; /* Cauchy-Schwarz */
        multiply(some, sixes, packed, width, stride, logits);
        for (int64_t at = 0, query = first; at < rows; at++, query++) {
            float *row = logits + at * stride;
            const float *added = bias ? bias + query * given->bias.token : NULL;
            for (int64_t key = 0; added && key < num_keys; key++)
                row[key] += added[key] * LOG2_E;
            for (int64_t key = num_keys; key < padded; key++)
                row[key] = bounded ? SMALLEST : -INFINITY;
            float top = bounded ? 0 : peak(row, padded);
            if (!(fabsf(top) <= LARGE)) {
                write_plain_logits(
                    queries + query * query_stride, packed, added, given->scale, width, num_keys,
                    padded, row);
                lower(row, padded, peak(row, padded), LOG2_E);
            } else if (!bounded)
                lower(row, padded, top, 1);
            add_row(row, weights, given, padded, window, query, sums, slots);
        }
    }
    for (int64_t slot = 0; slot < given->slots; slot++)
        sums[2 + slot] = slots[slot];
}

/* The start of an operand for one image, window and head; NULL if there is no operand. */
INLINE const float *part_of(const Operand *part, int64_t image, int64_t window, int64_t head)
{
    int64_t offset = image * part->image + window * part->window + head * part->head;
    return part->start ? part->start + offset : NULL;
}

/* A job is a chunk of the queries of one head in one window of one image. Jobs of the same chunk
   follow each other, so that its distances stay in the last cache until all heads of all images
   have used them. */
int VARIANT(attention_sums)(const Attention *given, int64_t *next)
{
    int64_t chunks = (given->num_queries + given->chunk - 1) / given->chunk;
    int64_t jobs = chunks * given->images * given->windows * given->heads;
    int64_t most = most_queries(given), stride = rounded_up(given->num_keys, KEYS);
    size_t room_size = (stride + most) * given->width + (most + 1) * stride + given->slots;
    float *room = malloc(room_size * sizeof(float));
    if (!room)
        return 1;
    for (int64_t job; (job = take(next, 1)) < jobs;) {
        int64_t head = job % given->heads, window = job / given->heads % given->windows;
        int64_t image = job / given->heads / given->windows % given->images;
        int64_t chunk = job / given->heads / given->windows / given->images;
        int64_t first = chunk * given->chunk, last = first + given->chunk;
        Window here = {
            given->distances + window * given->window_distances,
            given->taken + window * given->window_slots,
            given->near + window * given->window_slots};
        add_rows(
            given, part_of(&given->queries, image, window, head),
            part_of(&given->keys, image, window, head), part_of(&given->bias, image, window, head),
            &here, first, last < given->num_queries ? last : given->num_queries, room,
            given->sums + job * (2 + given->slots));
    }
    free(room);
    return 0;
}
