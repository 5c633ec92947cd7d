#include <stdio.h>

#include <assert.h>
#include <defs.h>

int printf(const char *restrict format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int written = __dpu_print(format, (const void *)arguments);
    va_end(arguments);
    return written;
}

int puts(const char *text)
{
    return printf("%s\n", text);
}

int putchar(int c)
{
    printf("%c", c);
    return c;
}

void __dpu_assert_failed(const char *condition, const char *file, int line)
{
    printf("%s:%d: assertion failed: %s\n", file, line, condition);
    __dpu_fault(__DPU_FAULT_ASSERT);
}
