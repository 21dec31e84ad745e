/* Distance, entropy and near masses of attention rows, without ever writing the attention down.

   Six queries meet sixteen keys at a time, in registers; the logits of their rows stay in the
   nearest cache, where they become weights and then sums. Where queries and keys are too short for
   large logits (in a trained ViT-Ti all are), their maximum is not looked for. What a row
   contributes is what rows.py computes with torch, in the same order of magnitude of rounding:
   products and sums over keys in float32, sums over rows in float64 (near masses of some hundred
   rows in float32).

   Called from kernel.py through ctypes (see library.py). */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "floats.h"

const int interface = 5; /* one more for every change in C that callers must follow */

enum { QUERIES = 6, KEYS = 2 * LANES, LINE = 16 };

#define MANY 100000 /* floats, for a second cache of 512 KiB */
#define LN_2 0.6931471805599453
#define HIDDEN (-1e30f) /* logit of what fills up the last tile, before the largest is known */
#define BOUND 64.0f     /* logits up to here become weights without a look at the largest first */

/* A tensor [image, window, head, token, ...]: how many floats apart neighbours are. */
typedef struct {
    const float *start;
    int64_t image, window, head, token;
} Part;

typedef struct {
    int64_t images, windows, heads, queries, keys, width, slots, chunk;
} Sizes;

/* Distances [window, query, key], or, where queries and keys are the patches of a grid row by row,
   by how many rows and columns they are apart, [rows, 2 * columns - 1] (columns: a multiple of
   LANES; else 0). The keys near a query and whether a slot is taken, both [window, query, slot].
   The window strides are 0 where all windows are alike. */
typedef struct {
    const float *distances;
    const int64_t *near;
    const float *taken;
    int64_t window_distances, window_slots, columns;
} Tables;

/* How many queries go over the keys together. Six fit into registers; where the keys do not fit
   into the second cache, four sixes use a tile of them while it is in the first. */
INLINE int64_t most_queries(const Sizes *sizes)
{
    return sizes->keys * sizes->width > MANY ? 4 * QUERIES : QUERIES;
}

/* Ask for a token early: it lies a jump away from the one before, which no cache foresees. */
INLINE void fetch(const float *token, int64_t width)
{
    for (int64_t at = 0; at < width; at += LINE)
        __builtin_prefetch(token + at);
}

/* The numbers of ``num`` tokens side by side, [width, num], times ``unit``; the last of those that
   are there stands for the others too. */
INLINE void interleave(
    const float *tokens, int64_t stride, int64_t there, int num, int64_t width, float unit,
    float *to)
{
    const float *from[KEYS];
    for (int token = 0; token < num; token++)
        from[token] = tokens + (token < there ? token : there - 1) * stride;
    for (int64_t at = 0; at < width; at++)
#pragma GCC unroll 16
        for (int token = 0; token < num; token++)
            *to++ = from[token][at] * unit;
}

/* Keys in tiles of sixteen, [tile, width, KEYS]. */
INLINE void pack(const float *keys, int64_t stride, int64_t num, int64_t width, float *packed)
{
    for (int64_t first = 0; first < num; first += KEYS, packed += KEYS * width) {
        for (int64_t key = first + KEYS; key < first + 2 * KEYS && key < num; key++)
            fetch(keys + key * stride, width);
        interleave(keys + first * stride, stride, num - first, KEYS, width, 1, packed);
    }
}

/* Logits of some sixes of packed queries with all tiles of keys, rows of ``padded``. */
INLINE void multiply(
    const float *queries, int64_t sixes, const float *packed, int64_t width, int64_t padded,
    float *logits)
{
    for (int64_t tile = 0; tile < padded / KEYS * sixes; tile++) {
        int64_t first = tile / sixes * KEYS, six = tile % sixes * QUERIES;
        const float *here = queries + six * width, *keys = packed + first * width;
        Floats left[QUERIES] = {{0}}, right[QUERIES] = {{0}};
        for (int64_t at = 0; at < width; at++) {
            Floats a = load(keys + at * KEYS), b = load(keys + at * KEYS + LANES);
#pragma GCC unroll 6
            for (int row = 0; row < QUERIES; row++) {
                left[row] += here[at * QUERIES + row] * a;
                right[row] += here[at * QUERIES + row] * b;
            }
        }
        for (int row = 0; row < QUERIES; row++) {
            store(logits + (six + row) * padded + first, left[row]);
            store(logits + (six + row) * padded + first + LANES, right[row]);
        }
    }
}

INLINE float sum_of(Floats x)
{
    float four[4];
    for (int lane = 0; lane < 4; lane++)
        four[lane] = x[lane] + x[lane + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

/* The square of the longest token. */
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

/* Counts the logits of a row from the largest, so that it has a weight of one; none is below
   SMALLEST afterwards. */
INLINE void lower(float *row, int64_t padded)
{
    Floats most = load(row);
    for (int64_t key = LANES; key < padded; key += LANES)
        most = larger(most, load(row + key));
    float top = most[0];
    for (int lane = 1; lane < LANES; lane++)
        top = most[lane] > top ? most[lane] : top;
    for (int64_t key = 0; key < padded; key += LANES)
        store(row + key, larger(load(row + key) - top, (Floats){0} + SMALLEST));
}

/* Turns eight logits into weights and adds them, and the logits they stand for. */
INLINE Floats weigh(float *row, Floats *masses, Floats *logits)
{
    Floats x = load(row), weights = power_of_two(x);
    store(row, weights);
    *masses += weights;
    *logits += weights * x;
    return weights;
}

/* Turns the logits of a row, in units of log 2, into weights and adds what they come to:
   distance, entropy in nats, and the weight in every slot. */
INLINE void add_row(
    float *row, int bounded, const Sizes *sizes, int64_t padded, const Tables *tables,
    int64_t query, double *sums, float *slots)
{
    for (int64_t key = sizes->keys; key < padded; key++)
        row[key] = bounded ? SMALLEST : HIDDEN;
    if (!bounded)
        lower(row, padded);
    int64_t columns = tables->columns, stretch = columns ? columns : sizes->keys;
    int64_t grid_row = columns ? query / columns : 0, step = columns ? 2 * columns - 1 : 0;
    const float *distances =
        tables->distances + (columns ? columns - 1 - query % columns : query * sizes->keys);
    Floats masses = {0}, logits = {0}, attended = {0};
    int64_t whole = sizes->keys / LANES * LANES, key = 0;
    for (int64_t below = -grid_row; key < whole; below++) { /* rows of the grid below the query */
        const float *far = distances + (below < 0 ? -below : below) * step;
        int64_t end = key + stretch < whole ? key + stretch : whole;
        for (; key < end; key += LANES, far += LANES)
            attended += load(far) * weigh(row + key, &masses, &logits);
    }
    for (; key < padded; key += LANES)
        weigh(row + key, &masses, &logits);
    float mass = sum_of(masses), distance = sum_of(attended), share = 1 / mass;
    for (key = whole; key < sizes->keys; key++)
        distance += row[key] * distances[key];

    int exponent;
    double log2_mass = log2f(frexpf(mass, &exponent)) + (double)exponent;
    sums[0] += distance * share;
    sums[1] += LN_2 * (log2_mass - (double)sum_of(logits) / mass);
    const int64_t *near = tables->near + query * sizes->slots;
    const float *taken = tables->taken + query * sizes->slots;
    for (int64_t slot = 0; slot < sizes->slots; slot++)
        slots[slot] += row[near[slot]] * taken[slot] * share;
}

/* The sums [2 + slots] of the queries first..last of one head in one window of one image. */
CLONES static void add_rows(
    const Sizes *sizes, const float *queries, int64_t query_stride, const float *keys,
    int64_t key_stride, const float *bias, int64_t bias_stride, float scale, const Tables *tables,
    int64_t first, int64_t last, float *room, double *sums)
{
    int64_t width = sizes->width, padded = (sizes->keys + KEYS - 1) / KEYS * KEYS;
    int64_t most = most_queries(sizes);
    float *packed = room, *some = packed + padded * width, *logits = some + most * width;
    float *slots = logits + most * padded;
    pack(keys, key_stride, sizes->keys, width, packed);
    float unit = scale * LOG2_E;
    float most_square = unit * unit * longest(keys, key_stride, sizes->keys, width);
    for (int64_t slot = 0; slot < sizes->slots; slot++)
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
        int bounded = !bias && square * most_square <= BOUND * BOUND; /* Cauchy and Schwarz */
        multiply(some, sixes, packed, width, padded, logits);
        for (int64_t row = 0, query = first; row < rows; row++, query++) {
            for (int64_t key = 0; bias && key < sizes->keys; key++)
                logits[row * padded + key] += bias[query * bias_stride + key] * LOG2_E;
            add_row(logits + row * padded, bounded, sizes, padded, tables, query, sums, slots);
        }
    }
    for (int64_t slot = 0; slot < sizes->slots; slot++)
        sums[2 + slot] = slots[slot];
}

static const float *found(const Part *part, int64_t image, int64_t window, int64_t head)
{
    return part->start ? part->start + image * part->image + window * part->window
                             + head * part->head
                       : NULL;
}

/* sums: [chunk, image, window, head, 2 + slots]; 0 when all went well, 1 when memory ran out. The
   distances of a chunk stay in the last cache until all heads of all images have used them. */
int attention_sums(
    const Sizes *sizes, const Part *queries, const Part *keys, const Part *bias, float scale,
    const Tables *tables, double *sums, int threads)
{
    int64_t padded = (sizes->keys + KEYS - 1) / KEYS * KEYS;
    int64_t chunks = (sizes->queries + sizes->chunk - 1) / sizes->chunk;
    int64_t jobs = chunks * sizes->images * sizes->windows * sizes->heads;
    int64_t most = most_queries(sizes);
    size_t room_size = (padded + most) * sizes->width + most * padded + sizes->slots;
    int failed = 0;
#pragma omp parallel num_threads(threads)
    {
        float *room = malloc(room_size * sizeof(float));
        if (!room) {
#pragma omp atomic write
            failed = 1;
        }
#pragma omp for schedule(dynamic)
        for (int64_t job = 0; job < jobs; job++) {
            if (!room)
                continue;
            int64_t head = job % sizes->heads, window = job / sizes->heads % sizes->windows;
            int64_t image = job / sizes->heads / sizes->windows % sizes->images;
            int64_t chunk = job / sizes->heads / sizes->windows / sizes->images;
            int64_t first = chunk * sizes->chunk, last = first + sizes->chunk;
            Tables here = {
                tables->distances + window * tables->window_distances,
                tables->near + window * tables->window_slots,
                tables->taken + window * tables->window_slots, 0, 0, tables->columns};
            add_rows(
                sizes, found(queries, image, window, head), queries->token,
                found(keys, image, window, head), keys->token, found(bias, image, window, head),
                bias->token, scale, &here, first, last < sizes->queries ? last : sizes->queries,
                room, sums + job * (2 + sizes->slots));
        }
        free(room);
    }
    return failed;
}
