/*
 * String functions. Compiled with -fno-builtin, so that a loop is not turned into a call of the
 * function that it is in. Copies go by words where both sides are aligned.
 */
#include <string.h>

#include <stdint.h>

#undef memcpy
#undef memset
#undef memmove

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    char *d = to;
    const char *s = from;
    if ((((uintptr_t)d | (uintptr_t)s) & 3) == 0) {
        for (; n >= 4; n -= 4, d += 4, s += 4)
            *(uint32_t *)d = *(const uint32_t *)s;
    }
    while (n--)
        *d++ = *s++;
    return to;
}

void *memmove(void *to, const void *from, size_t n)
{
    char *d = to;
    const char *s = from;
    if (d <= s || d >= s + n)
        return memcpy(to, from, n);
    while (n--)
        d[n] = s[n];
    return to;
}

void *memset(void *to, int value, size_t n)
{
    char *d = to;
    for (; n && ((uintptr_t)d & 3); n--)
        *d++ = (char)value;
    uint32_t word = (uint8_t)value * 0x01010101u;
    for (; n >= 4; n -= 4, d += 4)
        *(uint32_t *)d = word;
    while (n--)
        *d++ = (char)value;
    return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
    const unsigned char *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i])
            return x[i] - y[i];
    return 0;
}

void *memchr(const void *in, int value, size_t n)
{
    const unsigned char *x = in;
    for (size_t i = 0; i < n; i++)
        if (x[i] == (unsigned char)value)
            return (void *)(x + i);
    return NULL;
}

size_t strlen(const char *s)
{
    size_t n = 0;
    while (s[n])
        n++;
    return n;
}

size_t strnlen(const char *s, size_t limit)
{
    size_t n = 0;
    while (n < limit && s[n])
        n++;
    return n;
}

char *strcpy(char *restrict to, const char *restrict from)
{
    char *d = to;
    while ((*d++ = *from++)) {
    }
    return to;
}

char *strncpy(char *restrict to, const char *restrict from, size_t n)
{
    size_t i = 0;
    for (; i < n && from[i]; i++)
        to[i] = from[i];
    for (; i < n; i++)
        to[i] = 0;
    return to;
}

char *strcat(char *restrict to, const char *restrict from)
{
    strcpy(to + strlen(to), from);
    return to;
}

int strcmp(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return (unsigned char)*a - (unsigned char)*b;
}

int strncmp(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i] || !a[i])
            return (unsigned char)a[i] - (unsigned char)b[i];
    return 0;
}

char *strchr(const char *s, int c)
{
    for (;; s++) {
        if (*s == (char)c)
            return (char *)s;
        if (!*s)
            return NULL;
    }
}

char *strrchr(const char *s, int c)
{
    const char *found = NULL;
    for (;; s++) {
        if (*s == (char)c)
            found = s;
        if (!*s)
            return (char *)found;
    }
}
