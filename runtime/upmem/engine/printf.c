/* printf of device programs: the format is read here, the text goes into the DPU's log. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    engine_dpu_t *dpu;
    tasklet_t *tasklet;
    uint32_t arguments; /* WRAM address of the next argument */
    uint32_t written;
    bool failed;
} reader_t;

static bool byte_at(const engine_dpu_t *dpu, uint32_t address, char *value)
{
    if (address >= 8 && address < dpu->wram_bytes)
        *value = (char)dpu->wram[address];
    else if (address >= ENGINE_MRAM_BASE && address - ENGINE_MRAM_BASE < ENGINE_MRAM_SIZE)
        *value = (char)dpu->mram[address - ENGINE_MRAM_BASE];
    else
        return false;
    return true;
}

static void put(reader_t *r, const char *text, size_t n)
{
    engine_dpu_t *dpu = r->dpu;
    if (r->failed)
        return;
    if (dpu->log_size + n > dpu->program->log_size) {
        fault(dpu, r->tasklet, ENGINE_RULE_LOG_OVERFLOW,
              "printf has written %zu bytes of %u in this launch; %zu more do not fit "
              "(STDOUT_BUFFER_INIT makes the log larger)",
              dpu->log_size, dpu->program->log_size, n);
        r->failed = true;
        return;
    }
    if (dpu->log_size + n + 1 > dpu->log_capacity) {
        size_t capacity = 2 * (dpu->log_size + n + 1);
        char *log = realloc(dpu->log, capacity);
        if (!log) {
            fault(dpu, r->tasklet, ENGINE_RULE_LOG_OVERFLOW, "no host memory for the log");
            r->failed = true;
            return;
        }
        dpu->log = log;
        dpu->log_capacity = capacity;
    }
    memcpy(dpu->log + dpu->log_size, text, n);
    dpu->log_size += n;
    dpu->log[dpu->log_size] = 0;
    r->written += (uint32_t)n;
}

static uint64_t argument(reader_t *r, uint32_t bytes)
{
    uint64_t value = 0;
    if (bytes == 8)
        r->arguments = (r->arguments + 7) & ~7u;
    if (r->arguments < 8 || r->arguments > r->dpu->wram_bytes - bytes || r->arguments % 4) {
        if (!r->failed)
            fault_at(r->dpu, r->tasklet, ENGINE_RULE_WRAM_BOUNDS, r->arguments,
                     "an argument of printf at 0x%08x is not in WRAM", r->arguments);
        r->failed = true;
        return 0;
    }
    memcpy(&value, r->dpu->wram + r->arguments, bytes);
    r->arguments += bytes;
    return value;
}

static void put_string(reader_t *r, const char *format, uint32_t address)
{
    char text[1024];
    size_t n = 0;
    uint32_t start = address;
    while (n < sizeof text - 1) {
        char c;
        if (!byte_at(r->dpu, address++, &c)) {
            if (!r->failed)
                fault_at(r->dpu, r->tasklet, ENGINE_RULE_WRAM_BOUNDS, start,
                         "printf: the string at 0x%08x leaves memory", start);
            r->failed = true;
            return;
        }
        if (!c)
            break;
        text[n++] = c;
    }
    text[n] = 0;
    char out[1200];
    int m = snprintf(out, sizeof out, format, text);
    put(r, out, m < 0 ? 0 : (size_t)m < sizeof out ? (size_t)m : sizeof out - 1);
}

/* One conversion; spec is "%" flags width precision without the length, kind the last letter. */
static void convert(reader_t *r, const char *spec, int longs, char kind)
{
    char format[48], out[512];
    int n = 0;
    uint32_t bytes = longs >= 2 ? 8 : 4;
    switch (kind) {
    case 'd':
    case 'i': {
        snprintf(format, sizeof format, "%slld", spec);
        uint64_t raw = argument(r, bytes);
        long long value = bytes == 8     ? (long long)(int64_t)raw
                          : longs == -1 ? (int16_t)raw
                          : longs == -2 ? (int8_t)raw
                                        : (int32_t)(uint32_t)raw;
        n = snprintf(out, sizeof out, format, value);
        break;
    }
    case 'u':
    case 'x':
    case 'X':
    case 'o': {
        snprintf(format, sizeof format, "%sll%c", spec, kind);
        uint64_t raw = argument(r, bytes);
        unsigned long long value = longs == -1 ? (uint16_t)raw : longs == -2 ? (uint8_t)raw : raw;
        n = snprintf(out, sizeof out, format, value);
        break;
    }
    case 'p':
        n = snprintf(out, sizeof out, "0x%x", (uint32_t)argument(r, 4));
        break;
    case 'c':
        snprintf(format, sizeof format, "%sc", spec);
        n = snprintf(out, sizeof out, format, (int)argument(r, 4));
        break;
    case 's':
        snprintf(format, sizeof format, "%ss", spec);
        put_string(r, format, (uint32_t)argument(r, 4));
        return;
    default: { /* a, e, f, g */
        uint64_t raw = argument(r, 8);
        double value;
        memcpy(&value, &raw, sizeof value);
        snprintf(format, sizeof format, "%s%c", spec, kind);
        n = snprintf(out, sizeof out, format, value);
        break;
    }
    }
    put(r, out, n < 0 ? 0 : (size_t)n < sizeof out ? (size_t)n : sizeof out - 1);
}

int print(engine_dpu_t *dpu, tasklet_t *k, uint32_t format, uint32_t arguments, uint32_t *written)
{
    reader_t r = {dpu, k, arguments, 0, false};
    while (!r.failed) {
        char c;
        if (!byte_at(dpu, format++, &c))
            return fault_at(dpu, k, ENGINE_RULE_WRAM_BOUNDS, format - 1,
                            "printf: the format leaves memory at 0x%08x", format - 1);
        if (!c)
            break;
        if (c != '%') {
            put(&r, &c, 1);
            continue;
        }
        char spec[32] = "%";
        size_t n = 1;
        int longs = 0;
        for (;;) {
            if (!byte_at(dpu, format++, &c))
                c = 0;
            if (c == 'l' || c == 'j')
                longs += c == 'l' ? 1 : 2;
            else if (c == 'h')
                longs -= 1;
            else if (c == 'z' || c == 't')
                ; /* 32 bits */
            else if (c == '*')
                n += (size_t)snprintf(spec + n, 12, "%d", (int)(int32_t)argument(&r, 4));
            else if (c && strchr("-+ #0123456789.", c))
                spec[n++] = c;
            else
                break;
            if (n > sizeof spec - 14)
                break;
        }
        spec[n] = 0;
        if (c == '%')
            put(&r, "%", 1);
        else if (c && strchr("diuxXopcsaAeEfFgG", c))
            convert(&r, spec, longs, c);
        else
            return fault(dpu, k, ENGINE_RULE_RUNTIME_FAULT,
                         "printf: no conversion '%s%c' is known", spec, c ? c : '?');
    }
    *written = r.written;
    return r.failed ? STEP_FAULT : (int)(COST_PRINTF + COST_PRINTF_CHARACTER * r.written);
}
