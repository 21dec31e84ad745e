/* GAug's two factors per patch, straight from the queries (gaussian.py has the formulas).

   variance = growth * largest * sigmoid(w . q + b - shift), strength = softplus(w . q + b),
   along an axis exp(-1/2 offset^2 / (variance + eps)); the strength goes into the rows. */

#include <math.h>

#include "floats.h"

#define STEEP 20.0f /* softplus is the identity from here on, as in torch */

/* [image, head, patch, width]: how many floats apart neighbours are. */
typedef struct {
    const float *start;
    int64_t image, head, patch;
    int64_t images, heads, patches, width;
} Queries;

/* Weight [axes + 1, width] and bias [axes + 1], variances first; squared offsets [row, padded] and
   [col, padded], filled up to whole vectors. */
typedef struct {
    const float *weight, *bias;
    int64_t axes;
    float largest, shift, growth, eps;
    const float *by_row, *by_col;
    int64_t rows, cols;
} Settings;

INLINE Floats exponential(Floats x)
{
    Floats low = larger(LOG2_E * x, (Floats){0} + SMALLEST);
    return power_of_two(-larger(-low, (Floats){0} + SMALLEST));
}

INLINE float predicted(const Settings *given, const float *query, int64_t width, int64_t which)
{
    const float *weight = given->weight + which * width;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t at = 0; at < width; at++)
        sum += query[at] * weight[at];
    return sum + given->bias[which];
}

/* height * 2^(slope * square) for the squares of one place; the last vector may overlap. */
INLINE void write_axis(const float *squares, int64_t num, float slope, float height, float *out)
{
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

CLONES static void write_patch(
    const Settings *given, const float *query, int64_t width, int64_t patch, float *rows,
    float *cols)
{
    Floats x = {
        given->shift - predicted(given, query, width, 0),
        given->shift - predicted(given, query, width, given->axes - 1),
        predicted(given, query, width, given->axes)};
    Floats powers = exponential(x);
    Floats slopes = -0.5f * LOG2_E / (given->growth * given->largest / (1 + powers) + given->eps);
    float strength = x[2] > STEEP ? x[2] : log1pf(powers[2]);
    int64_t row = patch / given->cols, col = patch % given->cols;
    int64_t long_row = (given->rows + LANES - 1) / LANES * LANES;
    int64_t long_col = (given->cols + LANES - 1) / LANES * LANES;
    write_axis(given->by_row + row * long_row, given->rows, slopes[0], strength, rows);
    write_axis(given->by_col + col * long_col, given->cols, slopes[1], 1, cols);
}

/* rows [image, head, patch, row] and cols [image, head, patch, col], without gaps. */
void gaussian_factors(
    const Queries *queries, const Settings *given, float *rows, float *cols, int threads)
{
    int64_t num = queries->images * queries->heads * queries->patches;
#pragma omp parallel for num_threads(threads)
    for (int64_t job = 0; job < num; job++) {
        int64_t patch = job % queries->patches, head = job / queries->patches % queries->heads;
        int64_t image = job / queries->patches / queries->heads;
        write_patch(
            given,
            queries->start + image * queries->image + head * queries->head
                + patch * queries->patch,
            queries->width, patch, rows + job * given->rows, cols + job * given->cols);
    }
}
