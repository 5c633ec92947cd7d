/* Source positions: the line table of a program and the names of its functions. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define LINES_MAGIC 0x4C524E49u

static uint32_t word(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

bool engine_program_set_lines(engine_program_t *program, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    if (size < 16 || word(p) != LINES_MAGIC || word(p + 4) != 1)
        return false;
    uint32_t rows = word(p + 8), strings = word(p + 12);
    if (rows > (size - 16) / 12 || strings == 0 || strings > size - 16 - 12 * (size_t)rows)
        return false;
    const char *names = (const char *)p + 16 + 12 * (size_t)rows;
    if (names[strings - 1])
        return false;
    line_row_t *table = malloc((rows + 1) * sizeof *table);
    char *files = malloc(strings);
    if (!table || !files) {
        free(table);
        free(files);
        return false;
    }
    for (uint32_t i = 0; i < rows; i++) {
        const uint8_t *row = p + 16 + 12 * (size_t)i;
        table[i] = (line_row_t){word(row), word(row + 4), word(row + 8)};
        if (table[i].file >= strings || (i && table[i].address < table[i - 1].address)) {
            free(table);
            free(files);
            return false;
        }
    }
    memcpy(files, names, strings);
    free(program->rows);
    free(program->files);
    program->rows = table;
    program->row_count = rows;
    program->files = files;
    program->files_size = strings;
    return true;
}

static const char *function_at(const engine_program_t *program, uint32_t pc)
{
    uint32_t low = 0, high = program->function_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (program->functions[middle].address <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? program->functions[low - 1].name : NULL;
}

bool engine_program_line(const engine_program_t *program, uint32_t pc, const char **file,
                         uint32_t *line, const char **function)
{
    *file = NULL;
    *line = 0;
    *function = function_at(program, pc);
    uint32_t low = 0, high = program->row_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (program->rows[middle].address <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || !program->rows[low - 1].line)
        return false;
    *file = program->files + program->rows[low - 1].file;
    *line = program->rows[low - 1].line;
    return true;
}
