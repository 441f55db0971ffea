"""The names of the C library, which functions and variables of generated code must not take."""

from __future__ import annotations

_MATH = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor fma
    fmax fmin fmod frexp hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf
    nan nearbyint nextafter nexttoward pow remainder remquo rint round roundeven scalbln scalbn sin sincos sinh sqrt tan
    tanh tgamma trunc y0 y1 yn
"""

_OTHERS = """
    abort abs aligned_alloc assert atexit calloc clock close exit fork free getenv kill labs llabs main malloc memcmp
    memcpy memmove memset open printf puts raise rand read realloc signal sleep srand strcmp strlen syscall time write
    posix_memalign pthread_create pthread_detach pthread_join sched_getaffinity sched_yield
"""

MATH = frozenset(f"{name}{suffix}" for name in _MATH.split() for suffix in ("", "f", "l"))
"""Functions of `math.h`, for each floating type."""

C_LIBRARY = MATH | frozenset(_OTHERS.split())
"""Functions that generated code, or the program that it is linked into, may call."""
