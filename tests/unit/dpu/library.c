#include "check.h"

#include <assert.h>
#include <built_ins.h>
#include <inttypes.h>
#include <perfcounter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void strings(void)
{
    char a[40], b[40];
    for (uint32_t from = 0; from < 4; from++)
        for (uint32_t to = 0; to < 4; to++)
            for (uint32_t n = 0; n < 16; n++) {
                for (uint32_t i = 0; i < 40; i++)
                    a[i] = i, b[i] = 100;
                memcpy(b + to, a + from, n);
                for (uint32_t i = 0; i < 40; i++)
                    EQUAL(b[i], i >= to && i < to + n ? i - to + from : 100);
                memmove(a + to, a + from, n);
                for (uint32_t i = 0; i < 40; i++)
                    EQUAL(a[i], i >= to && i < to + n ? i - to + from : i);
                memset(b + to, from - 3, n);
                for (uint32_t i = 0; i < 40; i++)
                    EQUAL(b[i], i >= to && i < to + n ? (char)(from - 3) : 100);
            }
    strcpy(a, "tables");
    EQUAL(strlen(a), 6);
    EQUAL(strnlen(a, 4), 4);
    EQUAL(strcmp(a, "tables"), 0);
    CHECK(strcmp(a, "table") > 0 && strcmp(a, "tablet") < 0 && strcmp(a, "\xff") < 0);
    EQUAL(strncmp(a, "tablet", 5), 0);
    CHECK(strncmp(a, "tablet", 6) < 0);
    strcat(a, ", lookup");
    EQUAL(strcmp(a, "tables, lookup"), 0);
    EQUAL(strchr(a, 'l'), a + 3);
    EQUAL(strrchr(a, 'l'), a + 8);
    EQUAL(strchr(a, 'z'), NULL);
    EQUAL(strchr(a, 0), a + 14);
    EQUAL(memchr(a, 's', 14), a + 5);
    EQUAL(memchr(a, 's', 5), NULL);
    CHECK(memcmp("abc", "abd", 3) < 0 && memcmp("abc", "abd", 2) == 0);
    strncpy(b, "xy", 5);
    CHECK(b[0] == 'x' && b[2] == 0 && b[4] == 0);
    EQUAL(atoi(" -123x"), -123);
    EQUAL(atoi("+77"), 77);
    EQUAL(abs(-4), 4);
}

static void instructions(void)
{
    uint32_t u;
    int32_t s;
    volatile uint32_t x = 0xF0C8A381, y = 0x00000F7F, zero = 0;
    EQUAL(__builtin_clz_rr(u, y), 20);
    EQUAL(__builtin_clz_rr(u, zero), 32);
    EQUAL(__builtin_clo_rr(u, x), 4);
    EQUAL(__builtin_cls_rr(u, x), 4);
    EQUAL(__builtin_cao_rr(u, y), 11);
    EQUAL(__builtin_extsb_rr(s, x), -127);
    EQUAL(__builtin_extuh_rr(u, x), 0xA381);
    EQUAL(__builtin_rol_rri(u, x, 8), 0xC8A381F0);
    EQUAL(__builtin_ror_rri(u, x, 0), x);
    EQUAL(__builtin_lsl_add_rrri(u, 5, 3, 4), 53);
    EQUAL(__builtin_mul_ul_ul_rrr(u, x, y), 0x81 * 0x7F);
    EQUAL(__builtin_mul_uh_ul_rrr(u, x, y), 0xA3 * 0x7F);
    EQUAL(__builtin_mul_sl_sl_rrr(s, x, y), -127 * 127);
    EQUAL(__builtin_mul_sh_ul_rrr(s, x, y), (0xA3 - 256) * 0x7F);
    EQUAL(__builtin_mul_sl_uh_rrr(s, x, y), -127 * 15);
}

static void arithmetic(void)
{
    volatile int64_t big = -1234567890123456789;
    volatile uint64_t large = 0xFEDCBA9876543210;
    volatile int32_t small = -1000003;
    volatile float f = 1.5f;
    volatile double d = 0.1;
    CHECK(big / small == 1234564186430 && big % small == -897499);
    CHECK(large / 1000003 == 18364703450382 && large % 1000003 == 713574);
    CHECK(f * f == 2.25f && (int)(f * -3.0f) == -4);
    CHECK(d * 3 == 0.30000000000000004 && d * 3 != 0.3);
    EQUAL(large >> 13, 0xD4C3B2A1);
}

int main(void)
{
    perfcounter_config(COUNT_CYCLES, true);
    perfcounter_t before = perfcounter_get();
    strings();
    perfcounter_t after = perfcounter_get();
    CHECK(after > before && after % 16 == 0 && after < 10000000);
    instructions();
    arithmetic();
    perfcounter_config(COUNT_INSTRUCTIONS, true);
    for (volatile int i = 0; i < 100; i++) {
    }
    perfcounter_t instructions_counted = perfcounter_get();
    CHECK(instructions_counted >= 300 && instructions_counted < 1500);
    uint32_t left = check_stack();
    CHECK(left > 100 && left <= STACK_SIZE_DEFAULT / 4);
    printf("[%d|%5u|%-4x|%c|%s|%lld|%llu|%.3f|%%|%p]\n", -7, 42u, 0xbeu, 'q', "text",
           -123456789012345ll, 18446744073709551615ull, 2.5, (void *)0x1234);
    printf("%s%" PRIu32 " %" PRId64 " %d %d %d %d %d %lld %d\n", "", (uint32_t)1, (int64_t)-2, 3,
           4, 5, 6, 7, 8ll, 9);
    puts("line");
    putchar('c');
    putchar('\n');
    static_assert(sizeof(void *) == 4, "");
    assert(left);
    return 0;
}
