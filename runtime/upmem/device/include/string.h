#ifndef DPU_STRING_H
#define DPU_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int value, size_t n);
int memcmp(const void *a, const void *b, size_t n);
void *memchr(const void *in, int value, size_t n);
size_t strlen(const char *s);
size_t strnlen(const char *s, size_t n);
char *strcpy(char *restrict to, const char *restrict from);
char *strncpy(char *restrict to, const char *restrict from, size_t n);
char *strcat(char *restrict to, const char *restrict from);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t n);
char *strchr(const char *s, int c);
char *strrchr(const char *s, int c);

/* Small constant sizes become loads and stores. */
#define memcpy(to, from, n) __builtin_memcpy(to, from, n)
#define memset(to, value, n) __builtin_memset(to, value, n)
#define memmove(to, from, n) __builtin_memmove(to, from, n)

#endif
