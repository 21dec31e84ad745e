/* The arguments of the functions. calls.py declares the same structures. library.c lists where
   every field is, so that Python can refuse to load a library whose structures differ. */

#ifndef NEARSIGHT_CALLS_H
#define NEARSIGHT_CALLS_H

#include <stdint.h>

enum { LANES = 8 }; /* how many floats the loops process at a time */

/* A tensor [image, window, head, token, ...]: its first number, and for each of these four axes how
   many floats apart neighbours are. */
typedef struct {
    const float *start;
    int64_t image, window, head, token;
} Operand;

/* The arguments of attention_sums (kernel.c); calls.py explains them.

   queries, keys, bias  the tensors; without a bias its start is NULL
   chunk                how many queries of a head form one job
   distances            if columns is 0: [window, query, key]. Otherwise queries and keys are the
                        patches of a grid row by row, and distances are given by how many rows and
                        columns two patches are apart, [row, 2 * columns - 1]; columns is then a
                        multiple of LANES
   near, taken          [window, query, slot]: a key near the query, and 1 if the slot holds a key
   window_distances,    strides between windows of these tables; 0 if all windows share one table
   window_slots
   sums                 [chunk, image, window, head, 2 + slots], written by the function */
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

/* Several threads may make the same call at once. They share its jobs through the counter ``next``,
   which starts at 0. A function returns 0, or 1 if there was not enough memory. */
#define DECLARE(name, type)                                                                        \
    int name(const type *given, int64_t *next);                                                    \
    int name##_any(const type *given, int64_t *next);                                              \
    int name##_avx2(const type *given, int64_t *next);                                             \
    int name##_avx512(const type *given, int64_t *next);
DECLARE(attention_sums, Attention)

#endif
