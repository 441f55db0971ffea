"""The words of C and C++ and the names of the C library, which functions and variables of generated code must not
take."""

from __future__ import annotations

_MATH = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor fma
    fmax fmin fmod frexp hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf
    nan nearbyint nextafter nexttoward pow remainder remquo rint round roundeven scalbln scalbn sin sincos sinh sqrt tan
    tanh tgamma trunc y0 y1 yn
"""

_OTHERS = """
    abort abs aligned_alloc assert atexit calloc clock close exit fork free getenv kill labs llabs main malloc memcmp
    memcpy memmove memset open posix_memalign printf pthread_create pthread_detach pthread_join pthread_sigmask puts
    raise rand read realloc sched_getaffinity sched_getcpu sched_setaffinity sched_yield signal sleep srand strcmp
    strlen syscall sysconf time write
"""

MATH = frozenset(f"{name}{suffix}" for name in _MATH.split() for suffix in ("", "f", "l"))
"""Functions of `math.h`, for each floating type."""

C_LIBRARY = MATH | frozenset(_OTHERS.split())
"""Functions that generated code, or the program that it is linked into, may call."""

_ELSEWHERE = """
    _fini _init _start abs accept access alarm atof atoi atol atoll bind bsearch chdir chmod chown clearerr connect
    ctime difftime div drem dup dup2 environ errno execl execv execve fclose feof ferror fflush fgetc fgets fopen fputc
    fputs fread freopen fscanf fseek fstat fsync ftell ftruncate fwrite gamma getc getchar getcwd getline getpid gets
    gettimeofday gmtime index ioctl isalnum isalpha isatty iscntrl isdigit isgraph islower isprint ispunct isspace
    isupper isxdigit link listen localtime longjmp lseek lstat memchr memmem mkdir mktime mmap mprotect munmap nice
    pause perror pipe poll pow10 putc putchar putenv qsort random recv remove rename rewind rindex rmdir scalb scanf
    select send setbuf setenv setjmp setvbuf shutdown significand snprintf socket sprintf srandom sscanf stat stderr
    stdin stdout strcat strchr strcpy strcspn strdup strerror strftime strncat strncmp strncpy strpbrk strrchr strspn
    strstr strtod strtof strtok strtol strtoll strtoul strtoull swab sync system times tmpfile tmpnam tolower toupper
    truncate umask uname ungetc unlink usleep utime vfprintf vprintf vsnprintf vsprintf wait waitpid
"""

EXPORTED = C_LIBRARY | frozenset(_ELSEWHERE.split())
"""Functions that a program, or a library that it loads, may call: an exported function of the name would take the
place of the system's, all over the program."""

_C_WORDS = """
    alignas alignof asm auto bool break case char const constexpr continue default do double else enum extern false
    float for goto if inline int long nullptr register restrict return short signed sizeof static static_assert struct
    switch thread_local true typedef typeof typeof_unqual union unsigned void volatile while _Alignas _Alignof _Atomic
    _Bool _Complex _Generic _Imaginary _Noreturn _Static_assert _Thread_local
"""

_CPP_WORDS = """
    and and_eq bitand bitor catch char16_t char32_t char8_t class co_await co_return co_yield compl concept const_cast
    consteval constinit decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq
    operator or or_eq private protected public reinterpret_cast requires static_cast template this throw try typeid
    typename using virtual wchar_t xor xor_eq
"""

_MACROS = "i386 linux unix"
"""Names that compilers define, where they take more than the standard's language."""

WORDS = frozenset((*_C_WORDS.split(), *_CPP_WORDS.split(), *_MACROS.split()))
"""Words of C and C++ that nothing may be called."""
