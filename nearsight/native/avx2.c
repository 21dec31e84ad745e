/* The same loops for x86-64 processors with AVX2 and FMA (floats.h says how). */

#define AVX2
#ifdef __x86_64__

#include "kernel.c"

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
