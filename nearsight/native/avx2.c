/* Compile the loops once more, for x86-64 processors with AVX2 and FMA (floats.h explains how). */

#define AVX2
#ifdef __x86_64__

#include "kernel.c"

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
