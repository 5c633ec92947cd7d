#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
void __dpu_assert_failed(const char *condition, const char *file, int line)
    __attribute__((noreturn));
/* Runtime fault 3, after a line in the log. */
#define assert(condition)                                                                          \
    ((condition) ? (void)0 : __dpu_assert_failed(#condition, __FILE__, __LINE__))
#endif
#ifndef static_assert
#define static_assert _Static_assert
#endif
