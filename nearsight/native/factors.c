/* GAug's two factors per patch, straight from the queries (gaussian.py has the formulas).

   variance = growth * largest * sigmoid(w . q + b - shift), strength = softplus(w . q + b),
   along an axis exp(-1/2 offset^2 / (variance + eps)); the strength goes into the rows. */

#include "floats.h"

#define STEEP 20.0f /* softplus is the identity from here on, as in torch */

enum { SOME_FACTORS = 64 }; /* patches that a thread takes at a time */

INLINE Floats exponential(Floats x) /* NaN of NaN */
{
    Floats low = larger(LOG2_E * x, (Floats){0} + SMALLEST);
    Floats power = power_of_two(-larger(-low, (Floats){0} + SMALLEST));
    Ints number = x == x;
    return (Floats)((number & (Ints)power) | (~number & (Ints)x));
}

INLINE float predicted(const Factors *given, const float *query, int64_t which)
{
    const float *weight = given->weight + which * given->width;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t at = 0; at < given->width; at++)
        sum += query[at] * weight[at];
    return sum + given->bias[which];
}

/* height * 2^(slope * square) for the squares of one place; the last vector may overlap. */
INLINE void write_axis(const float *squares, int64_t num, float slope, float height, float *out)
{
    if (slope != slope)
        height = slope;
    for (int64_t at = 0; at < num; at += LANES) {
        int64_t first = at + LANES <= num || num < LANES ? at : num - LANES;
        Floats powers = larger(slope * load(squares + first), (Floats){0} + SMALLEST);
        Floats made = height * power_of_two(powers);
        if (num >= LANES)
            store(out + first, made);
        else
            for (int lane = 0; lane < num; lane++)
                out[lane] = made[lane];
    }
}

INLINE void write_patch(
    const Factors *given, const float *query, int64_t patch, float *rows, float *cols)
{
    Floats x = {
        given->shift - predicted(given, query, 0),
        given->shift - predicted(given, query, given->axes - 1),
        predicted(given, query, given->axes)};
    Floats powers = exponential(x);
    Floats slopes = -0.5f * LOG2_E / (given->growth * given->largest / (1 + powers) + given->eps);
    float strength = x[2] > STEEP ? x[2] : log1pf(powers[2]);
    int64_t row = patch / given->num_cols, col = patch % given->num_cols;
    int64_t long_row = (given->num_rows + LANES - 1) / LANES * LANES;
    int64_t long_col = (given->num_cols + LANES - 1) / LANES * LANES;
    write_axis(given->by_row + row * long_row, given->num_rows, slopes[0], strength, rows);
    write_axis(given->by_col + col * long_col, given->num_cols, slopes[1], 1, cols);
}

int VARIANT(gaussian_factors)(const Factors *given, int64_t *next)
{
    int64_t jobs = given->images * given->heads * given->patches;
    for (int64_t first; (first = take(next, SOME_FACTORS)) < jobs;)
        for (int64_t job = first; job < first + SOME_FACTORS && job < jobs; job++) {
            int64_t patch = job % given->patches, head = job / given->patches % given->heads;
            int64_t image = job / given->patches / given->heads;
            write_patch(
                given,
                given->queries + image * given->image + head * given->head + patch * given->patch,
                patch, given->rows + job * given->num_rows, given->cols + job * given->num_cols);
        }
    return 0;
}
