/* What the functions are called with. calls.py has the same structures; library.c tells it where
   every field is, so that a difference is noticed when the library is loaded. */

#ifndef NEARSIGHT_CALLS_H
#define NEARSIGHT_CALLS_H

#include <stdint.h>

enum { LANES = 8 }; /* floats at a time */

/* A tensor [image, window, head, token, ...]: how many floats apart neighbours are. */
typedef struct {
    const float *start;
    int64_t image, window, head, token;
} Part;

/* Sums over attention rows (kernel.c).

   Distances are [window, query, key], or, where queries and keys are the patches of a grid row by
   row, by how many rows and columns they are apart, [rows, 2 * columns - 1] (columns: a multiple of
   LANES; else 0). The keys near a query and whether a slot is taken are both [window, query, slot].
   The window strides are 0 where all windows are alike. A bias that starts at NULL is none.
   sums: [chunk, image, window, head, 2 + slots], where a chunk is some queries. */
typedef struct {
    Part queries, keys, bias;
    int64_t images, windows, heads, num_queries, num_keys, width, slots, chunk;
    const float *distances;
    const int64_t *near;
    const float *taken;
    int64_t window_distances, window_slots, columns;
    double *sums;
    float scale;
} Attention;

/* The factors of GAug's Gaussian (factors.c).

   Queries are [image, head, patch, width]. Weight [axes + 1, width] and bias [axes + 1], variances
   first; squared offsets [row, padded] and [col, padded], filled up to whole vectors. Written are
   rows [image, head, patch, row] and cols [image, head, patch, col], without gaps. */
typedef struct {
    const float *queries;
    int64_t image, head, patch;
    int64_t images, heads, patches, width;
    const float *weight, *bias;
    int64_t axes;
    float largest, shift, growth, eps;
    const float *by_row, *by_col;
    int64_t num_rows, num_cols;
    float *rows, *cols;
} Factors;

/* A bias from its two factors (product.c): rows [head, patch, row] and cols [head, patch, col]
   without gaps; neighbouring patches and heads of out are some floats apart. */
typedef struct {
    const float *rows, *cols;
    float *out;
    int64_t heads, patches, num_rows, num_cols, head_stride, patch_stride;
} Product;

/* Several threads may make the same call at once: they share its jobs by the counter ``next``,
   which starts at 0. Returned is 0, or 1 when memory ran out. */
#define DECLARE(name, type)                                                                        \
    int name(const type *given, int64_t *next);                                                    \
    int name##_any(const type *given, int64_t *next);                                              \
    int name##_avx2(const type *given, int64_t *next);
DECLARE(attention_sums, Attention)
DECLARE(gaussian_factors, Factors)
DECLARE(write_product, Product)

#endif
