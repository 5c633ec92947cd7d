#ifndef DPU_STDLIB_H
#define DPU_STDLIB_H

#include <stddef.h>

#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1

#define abs(x) __builtin_abs(x)
#define labs(x) __builtin_labs(x)

int atoi(const char *text);
/* Runtime fault 4, as halt(). */
void abort(void) __attribute__((noreturn));
/* Ends the calling tasklet. */
void exit(int status) __attribute__((noreturn));

#endif
