/* Eight floats at a time, for GCC and Clang, and the loops compiled once more for AVX2.

   On x86-64 every loop is compiled twice: for any processor, and (avx2.c) for those with AVX2 and
   FMA. A function attribute for this (target_clones) would need ifunc, which not every C library
   has, and Clang refuses vectors that pass between functions with different instructions; so avx2.c
   includes the other files under a pragma that covers all their functions. */

#ifndef NEARSIGHT_FLOATS_H
#define NEARSIGHT_FLOATS_H

#ifndef __GNUC__
#error "the compiled loops need the vectors of GCC or Clang; without them torch does the work"
#endif

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "calls.h"

#ifndef AVX2
#define VARIANT(name) name##_any
#else
#define VARIANT(name) name##_avx2
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#endif

#define LOG2_E 1.4426950408889634f
#define SMALLEST (-125.0f) /* powers of two below are not normal numbers */

#define INLINE static inline __attribute__((always_inline))

typedef float Floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE Floats load(const float *from) { return *(const Floats *)from; }

INLINE void store(float *to, Floats x) { *(Floats *)to = x; }

INLINE Floats larger(Floats x, Floats y) /* a NaN in x stays */
{
    Ints less = x < y;
    return (Floats)((less & (Ints)y) | (~less & (Ints)x));
}

/* 2^x for SMALLEST <= x <= -SMALLEST, to 1e-7 of it: a polynomial for the fraction, exponent bits
   for the nearest integer. The power of a NaN may be any number: callers look for NaN themselves,
   where it costs less than here. */
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
    return (Floats)((Words)sum + ((Words)shifted << 23));
}

/* The first of ``num`` jobs that no thread has taken yet. Threads call a function with the same
   counter and each goes on until the jobs are over, so their number does not matter. */
INLINE int64_t take(int64_t *next, int64_t num)
{
    return __atomic_fetch_add(next, num, __ATOMIC_RELAXED);
}

#endif
