/* The facts that library.py checks before the first call, and the choice between the loops for any
   processor and those for AVX2. */

#include <stddef.h>

#include "calls.h"

const int interface = 7; /* raise it with every change in C that callers must follow */

#ifdef __clang__
const char compiler[] = __VERSION__;
#else
const char compiler[] = "GCC " __VERSION__;
#endif

/* A structure, a field of one, or a constant, whose value stands in ``size``. */
typedef struct {
    const char *name;
    int64_t offset, size;
} Field;

#define WHOLE(type) {#type, 0, sizeof(type)}
#define FIELD(type, field) {#type "." #field, offsetof(type, field), sizeof(((type *)0)->field)}

const Field fields[] = {
    {"LANES", 0, LANES},

    WHOLE(Operand), FIELD(Operand, start), FIELD(Operand, image), FIELD(Operand, window), FIELD(Operand, head),
    FIELD(Operand, token),

    WHOLE(Attention), FIELD(Attention, queries), FIELD(Attention, keys), FIELD(Attention, bias),
    FIELD(Attention, images), FIELD(Attention, windows), FIELD(Attention, heads),
    FIELD(Attention, num_queries), FIELD(Attention, num_keys), FIELD(Attention, width),
    FIELD(Attention, slots), FIELD(Attention, chunk), FIELD(Attention, distances),
    FIELD(Attention, near), FIELD(Attention, taken), FIELD(Attention, window_distances),
    FIELD(Attention, window_slots), FIELD(Attention, columns), FIELD(Attention, sums),
    FIELD(Attention, scale),

    {0, 0, 0}};

#if defined(__x86_64__) && !defined(ANY_PROCESSOR)
int uses_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

/* The first processors with AVX-512 lower their clock for it; later ones have VBMI2 too. */
int uses_avx512(void)
{
    return uses_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vbmi2");
}

#define CHOOSE(name, type)                                                                         \
    int name(const type *given, int64_t *next)                                                     \
    {                                                                                              \
        if (uses_avx512())                                                                         \
            return name##_avx512(given, next);                                                     \
        return uses_avx2() ? name##_avx2(given, next) : name##_any(given, next);                   \
    }
#else
int uses_avx2(void) { return 0; }

#define CHOOSE(name, type)                                                                         \
    int name(const type *given, int64_t *next) { return name##_any(given, next); }
#endif

CHOOSE(attention_sums, Attention)
