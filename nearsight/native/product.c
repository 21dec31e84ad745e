/* The bias between patches from its two factors, into memory that is there.

   out[p, (row, col)] = rows[p, row] * cols[p, col]. torch gives a row of a dozen numbers to its
   machinery for loops at a time; this is the loop alone. */

#include "floats.h"

enum { SOME_PRODUCTS = 64 }; /* patches that a thread takes at a time */

INLINE void multiply_factors(
    const float *restrict rows, const float *restrict cols, int64_t num_rows, int64_t num_cols,
    float *restrict out)
{
    for (int64_t row = 0; row < num_rows; row++, out += num_cols)
        for (int64_t col = 0; col < num_cols; col++)
            out[col] = rows[row] * cols[col];
}

int VARIANT(write_product)(const Product *given, int64_t *next)
{
    int64_t jobs = given->heads * given->patches;
    for (int64_t first; (first = take(next, SOME_PRODUCTS)) < jobs;)
        for (int64_t job = first; job < first + SOME_PRODUCTS && job < jobs; job++)
            multiply_factors(
                given->rows + job * given->num_rows, given->cols + job * given->num_cols,
                given->num_rows, given->num_cols,
                given->out + job / given->patches * given->head_stride
                    + job % given->patches * given->patch_stride);
    return 0;
}
