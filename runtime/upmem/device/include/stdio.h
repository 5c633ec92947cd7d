/* printf into the DPU's log, which the host reads with dpu_log_read. */
#ifndef DPU_STDIO_H
#define DPU_STDIO_H

#include <attributes.h>
#include <stdarg.h>
#include <stddef.h>

/* The size of the log where 1 MB is not right; once in a program. */
#define STDOUT_BUFFER_INIT(size)                                                                   \
    __asm__(".globl __log_size\n.set __log_size, " __DPU_STDIO_STRING(size) "\n");
#define __DPU_STDIO_STRING(x) __DPU_STDIO_STRING_OF(x)
#define __DPU_STDIO_STRING_OF(x) #x

int printf(const char *restrict format, ...) __attribute__((format(printf, 1, 2)));
int puts(const char *text);
int putchar(int c);

#endif
