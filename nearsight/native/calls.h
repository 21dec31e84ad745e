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
} Operand;

/* Sums over attention rows (kernel.c).

   Distances are [window, query, key], or, where queries and keys are the patches of a grid row by
   row, by how many rows and columns they are apart, [rows, 2 * columns - 1] (columns: a multiple of
   LANES; else 0). The keys near a query and whether a slot is taken are both [window, query, slot].
   The window strides are 0 where all windows are alike. A bias that starts at NULL is none.
   sums: [chunk, image, window, head, 2 + slots], where a chunk is some queries. */
typedef struct {
    Operand queries, keys, bias;
    int64_t images, windows, heads, num_queries, num_keys, width, slots, chunk;
    const float *distances;
    const int64_t *near;
    const float *taken;
    int64_t window_distances, window_slots, columns;
    double *sums;
    float scale;
} Attention;

/* Several threads may make the same call at once: they share its jobs by the counter ``next``,
   which starts at 0. Returned is 0, or 1 when memory ran out. */
#define DECLARE(name, type)                                                                        \
    int name(const type *given, int64_t *next);                                                    \
    int name##_any(const type *given, int64_t *next);                                              \
    int name##_avx2(const type *given, int64_t *next);
DECLARE(attention_sums, Attention)

#endif
