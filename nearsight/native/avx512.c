/* Compile the loops once more, for x86-64 processors with AVX-512 (floats.h explains how). */

#define AVX2
#define AVX512
#ifdef __x86_64__

#include "kernel.c"

#ifdef __clang__
#pragma clang attribute pop
#endif

#endif
