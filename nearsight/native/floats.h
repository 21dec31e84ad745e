/* Arithmetic on eight floats at a time, written with the vector types of GCC and Clang.

   On x86-64 every loop is compiled twice: for any processor, and (in avx2.c) for those with AVX2
   and FMA. A function attribute could do this (target_clones), but it needs ifunc, which not every
   C library has, and Clang refuses to pass vectors between functions with different instructions.
   Therefore avx2.c includes kernel.c once more, under a pragma that covers all its functions. */

#ifndef NEARSIGHT_FLOATS_H
#define NEARSIGHT_FLOATS_H

#ifndef __GNUC__
#error "the loops need the vector types of GCC or Clang; without this library torch does the work"
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
#define SMALLEST (-125.0f) /* a power of two with a smaller exponent is not a normal number */

#define INLINE static inline __attribute__((always_inline))

typedef float Floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE Floats load(const float *from) { return *(const Floats *)from; }

INLINE void store(float *to, Floats x) { *(Floats *)to = x; }

/* The larger of each two numbers; if the number of x is NaN, NaN. */
INLINE Floats larger(Floats x, Floats y)
{
    Ints less = x < y;
    return (Floats)((less & (Ints)y) | (~less & (Ints)x));
}

/* Return 2^x for SMALLEST <= x <= -SMALLEST with a relative error of 1e-7. The integer nearest to x
   becomes the exponent bits; a polynomial gives the power of the rest. The power of NaN may be any
   number, so callers must look for NaN themselves, which costs less there than here. */
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

/* Take the next ``num`` jobs that no thread has taken yet, and return the first of them. All
   threads use the same counter and go on until no job is left, so any number of threads will do. */
INLINE int64_t take(int64_t *next, int64_t num)
{
    return __atomic_fetch_add(next, num, __ATOMIC_RELAXED);
}

#endif
