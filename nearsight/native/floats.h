/* Arithmetic on eight floats at a time, written with the vector types of GCC and Clang.

   On x86-64 every loop is compiled three times: for any processor, (in avx2.c) for those with AVX2
   and FMA, and (in avx512.c) for those with AVX-512. A function attribute could do this
   (target_clones), but it needs ifunc, which not every C library has, and Clang refuses to pass
   vectors between functions with different instructions. Therefore avx2.c and avx512.c include
   kernel.c once more, under a pragma that covers all its functions.

   With AVX-512 sixteen floats are computed at a time wherever each float is computed for itself.
   Sums still run over eight lanes in the same order, so AVX2 and AVX-512 agree in every bit. */

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

#if defined(AVX512)
#define VARIANT(name) name##_avx512
#ifdef __clang__
#define TARGET "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw"
#else /* where GCC itself forms vectors, it forms those of AVX2, for the same order of sums */
#define TARGET "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw,prefer-vector-width=256"
#endif
#elif defined(AVX2)
#define VARIANT(name) name##_avx2
#define TARGET "avx2,fma"
#else
#define VARIANT(name) name##_any
#endif

#ifdef TARGET
#define PRAGMA(words) _Pragma(#words)
#define EXPANDED(words) PRAGMA(words)
#ifdef __clang__
EXPANDED(clang attribute push(__attribute__((target(TARGET))), apply_to = function))
#else
EXPANDED(GCC target(TARGET))
#endif
#endif

#define LOG2_E 1.4426950408889634f
#define SMALLEST (-125.0f) /* a power of two with a smaller exponent is not a normal number */

#define INLINE static inline __attribute__((always_inline))

typedef float Floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE Floats load(const float *from) { return *(const Floats *)from; }

INLINE void store(float *to, Floats x) { *(Floats *)to = x; }

/* As many floats as a register holds, for loops that compute every float for itself. */
#ifdef AVX512
enum { WIDE = 2 * LANES };
#else
enum { WIDE = LANES };
#endif
typedef float WideFloats __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
typedef uint32_t WideWords __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));

INLINE WideFloats load_wide(const float *from) { return *(const WideFloats *)from; }

INLINE void store_wide(float *to, WideFloats x) { *(WideFloats *)to = x; }

/* The larger of each two numbers; if the number of x is NaN, NaN. */
INLINE Floats larger(Floats x, Floats y)
{
    Ints less = x < y;
    return (Floats)((less & (Ints)y) | (~less & (Ints)x));
}

/* Return 2^x for SMALLEST <= x <= -SMALLEST with a relative error of 1e-7. The integer nearest to x
   becomes the exponent bits; a polynomial gives the power of the rest. The power of NaN may be any
   number, so callers must look for NaN themselves, which costs less there than here. */
INLINE WideFloats power_of_two(WideFloats x)
{
    const float rounder = 12582912.0f; /* 1.5 * 2^23: its last bit is worth one */
    WideFloats shifted = x + rounder;
    WideFloats fraction = x - (shifted - rounder);
    WideFloats sum = 1.5353362e-4f * fraction + 1.3398875e-3f;
    sum = sum * fraction + 9.6184369e-3f;
    sum = sum * fraction + 5.5503324e-2f;
    sum = sum * fraction + 2.4022648e-1f;
    sum = sum * fraction + 6.9314718e-1f;
    sum = sum * fraction + 1.0f;
    return (WideFloats)((WideWords)sum + ((WideWords)shifted << 23));
}

/* Take the next ``num`` jobs that no thread has taken yet, and return the first of them. All
   threads use the same counter and go on until no job is left, so any number of threads will do. */
INLINE int64_t take(int64_t *next, int64_t num)
{
    return __atomic_fetch_add(next, num, __ATOMIC_RELAXED);
}

#endif
