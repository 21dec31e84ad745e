/* Eight floats at a time, for every compiler that knows GCC's vectors. */

#ifndef NEARSIGHT_FLOATS_H
#define NEARSIGHT_FLOATS_H

#include <stdint.h>

enum { LANES = 8 };

#define LOG2_E 1.4426950408889634f
#define SMALLEST (-125.0f) /* powers of two below are not normal numbers */

#define INLINE static inline __attribute__((always_inline))
#ifdef __x86_64__
#define CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

typedef float Floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE Floats load(const float *from) { return *(const Floats *)from; }

INLINE void store(float *to, Floats x) { *(Floats *)to = x; }

INLINE Floats larger(Floats x, Floats y) /* a NaN in x stays */
{
    Ints less = x < y;
    return (Floats)((less & (Ints)y) | (~less & (Ints)x));
}

/* 2^x for SMALLEST <= x <= -SMALLEST, to 1e-7 of it: a polynomial for the fraction, exponent bits
   for the nearest integer. */
INLINE Floats power_of_two(Floats x)
{
    const float rounder = 12582912.0f; /* 1.5 * 2^23: its last bit is worth one */
    Floats shifted = x + rounder;
    Floats fraction = x - (shifted - rounder);
    Floats sum = 1.5353362e-4f * fraction + 1.3398875e-3f;
    sum = sum * fraction + 9.6184369e-3f;
    sum = sum * fraction + 5.5503324e-2f;
    sum = sum * fraction + 2.4022648e-1f;
    sum = sum * fraction + 6.9314718e-1f;
    sum = sum * fraction + 1.0f;
    return (Floats)((Ints)sum + ((Ints)shifted << 23));
}

#endif
