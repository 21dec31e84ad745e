/* The bias between patches from its two factors, into memory that is there (bias.py).

   out[p, (row, col)] = rows[p, row] * cols[p, col]. torch gives a row of a dozen numbers to its
   machinery for loops at a time; this is the loop alone. */

#include "floats.h"

CLONES static void multiply(
    const float *restrict rows, const float *restrict cols, int64_t num_rows, int64_t num_cols,
    float *restrict out)
{
    for (int64_t row = 0; row < num_rows; row++, out += num_cols)
        for (int64_t col = 0; col < num_cols; col++)
            out[col] = rows[row] * cols[col];
}

/* rows [head, patch, row] and cols [head, patch, col] without gaps; neighbouring patches and heads
   of out are patch_stride and head_stride floats apart. */
void write_product(
    const float *rows, const float *cols, int64_t heads, int64_t patches, int64_t num_rows,
    int64_t num_cols, float *out, int64_t head_stride, int64_t patch_stride, int threads)
{
#pragma omp parallel for num_threads(threads)
    for (int64_t job = 0; job < heads * patches; job++)
        multiply(
            rows + job * num_rows, cols + job * num_cols, num_rows, num_cols,
            out + job / patches * head_stride + job % patches * patch_stride);
}
