/* Programs: from the bytes of an ELF to decoded instructions, images of the memories, symbols. */
#include "internal.h"

#include <elf.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct loader {
    const uint8_t *bytes;
    size_t size;
    const Elf32_Shdr *sections;
    uint32_t section_count;
    const char *section_names;
    uint32_t section_names_size;
    const engine_options_t *options;
    engine_program_t *program;
    char *error;
    size_t error_size;
    engine_load_status_t status;
    uint32_t wram_end; /* end of what sections place in WRAM */
    bool has_tasklets, has_stacks, has_stack_size, has_heap;
    uint32_t stacks_start, stack_size, stack_sizes[ENGINE_MAX_TASKLETS];
} loader_t;

static bool fail(loader_t *l, engine_load_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool fail(loader_t *l, engine_load_status_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    l->status = status;
    vsnprintf(l->error, l->error_size, format, arguments);
    va_end(arguments);
    return false;
}

static bool out_of_memory(loader_t *l)
{
    return fail(l, ENGINE_LOAD_NO_MEMORY, "no host memory for the program");
}

static const char *section_name(const loader_t *l, const Elf32_Shdr *s)
{
    return s->sh_name < l->section_names_size ? l->section_names + s->sh_name : "";
}

static bool starts(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

static bool open_elf(loader_t *l)
{
    const Elf32_Ehdr *h = (const void *)l->bytes;
    if (l->size < sizeof *h || memcmp(l->bytes, ELFMAG, SELFMAG))
        return fail(l, ENGINE_LOAD_INVALID, "not an ELF file");
    if (h->e_ident[EI_CLASS] != ELFCLASS32 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
        h->e_machine != EM_RISCV)
        return fail(l, ENGINE_LOAD_INVALID,
                    "an ELF file for another machine (class %u, machine %u): device programs are "
                    "built by the emulator's compiler driver, for 32-bit RISC-V",
                    h->e_ident[EI_CLASS], h->e_machine);
    if (h->e_flags & 1)
        return fail(l, ENGINE_LOAD_INVALID, "compiled with compressed instructions");
    if (h->e_type != ET_EXEC || h->e_shentsize != sizeof(Elf32_Shdr) || !h->e_shnum ||
        h->e_shoff % 4 || h->e_shoff > l->size ||
        h->e_shnum > (l->size - h->e_shoff) / sizeof(Elf32_Shdr))
        return fail(l, ENGINE_LOAD_INVALID, "no linked executable with its section table");
    l->sections = (const void *)(l->bytes + h->e_shoff);
    l->section_count = h->e_shnum;
    for (uint32_t i = 0; i < l->section_count; i++) {
        const Elf32_Shdr *s = &l->sections[i];
        if (s->sh_type != SHT_NOBITS && s->sh_type != SHT_NULL &&
            (s->sh_offset > l->size || s->sh_size > l->size - s->sh_offset))
            return fail(l, ENGINE_LOAD_INVALID, "section %u reaches past the end of the file", i);
    }
    if (h->e_shstrndx < l->section_count) {
        const Elf32_Shdr *s = &l->sections[h->e_shstrndx];
        if (s->sh_type == SHT_STRTAB && s->sh_size && !l->bytes[s->sh_offset + s->sh_size - 1]) {
            l->section_names = (const char *)l->bytes + s->sh_offset;
            l->section_names_size = s->sh_size;
        }
    }
    if (h->e_entry < ENGINE_IRAM_BASE || h->e_entry % 4)
        return fail(l, ENGINE_LOAD_INVALID, "the entry 0x%08x is not in IRAM", h->e_entry);
    l->program->entry = h->e_entry - ENGINE_IRAM_BASE;
    return true;
}

static bool add_image(loader_t *l, uint32_t memory, const Elf32_Shdr *s, uint32_t address)
{
    engine_program_t *p = l->program;
    uint32_t n = p->image_count[memory];
    image_t *images = realloc(p->images[memory], (n + 1) * sizeof *images);
    if (!images)
        return out_of_memory(l);
    p->images[memory] = images;
    images[n] = (image_t){address, s->sh_size, NULL};
    p->image_count[memory] = n + 1;
    if (s->sh_type == SHT_NOBITS)
        return true;
    if (!(images[n].bytes = malloc(s->sh_size)))
        return out_of_memory(l);
    memcpy(images[n].bytes, l->bytes + s->sh_offset, s->sh_size);
    return true;
}

static bool add_code(loader_t *l, const Elf32_Shdr *s)
{
    engine_program_t *p = l->program;
    uint32_t offset = s->sh_addr - ENGINE_IRAM_BASE;
    if (s->sh_type == SHT_NOBITS || offset % 4 || s->sh_size % 4)
        return fail(l, ENGINE_LOAD_INVALID, "code section %s is not made of 4-byte words",
                    section_name(l, s));
    if (offset > (1u << 22) || s->sh_size > (1u << 22))
        return fail(l, ENGINE_LOAD_IRAM_OVERFLOW,
                    "iram-overflow: code section %s ends at byte %llu of IRAM",
                    section_name(l, s), (unsigned long long)offset + s->sh_size);
    uint32_t end = (offset + s->sh_size) / 4;
    if (end > p->count) {
        insn_t *code = realloc(p->original, end * sizeof *code);
        if (!code)
            return out_of_memory(l);
        memset(code + p->count, 0, (end - p->count) * sizeof *code); /* OP_ILLEGAL */
        p->original = code;
        p->count = end;
    }
    for (uint32_t i = 0; i < s->sh_size / 4; i++) {
        uint32_t word;
        memcpy(&word, l->bytes + s->sh_offset + 4 * i, 4);
        p->original[offset / 4 + i] = decode(word, offset + 4 * i);
    }
    return true;
}

static bool read_sections(loader_t *l)
{
    for (uint32_t i = 0; i < l->section_count; i++) {
        const Elf32_Shdr *s = &l->sections[i];
        const char *name = section_name(l, s);
        if (!strcmp(name, ".inr_lines") && s->sh_type == SHT_PROGBITS)
            engine_program_set_lines(l->program, l->bytes + s->sh_offset, s->sh_size);
        if (!(s->sh_flags & SHF_ALLOC) || !s->sh_size)
            continue;
        uint32_t address = s->sh_addr;
        uint64_t end = (uint64_t)address + s->sh_size;
        bool nothing = s->sh_type == SHT_NOBITS;
        if (address >= ENGINE_IRAM_BASE && address < ENGINE_ATOMIC_BASE) {
            if (!add_code(l, s))
                return false;
        } else if (address >= ENGINE_ATOMIC_BASE) {
            if (end > ENGINE_ATOMIC_BASE + (uint64_t)ENGINE_ATOMIC_BITS)
                return fail(l, ENGINE_LOAD_INVALID, "%llu atomic bits of %u",
                            (unsigned long long)(end - ENGINE_ATOMIC_BASE), ENGINE_ATOMIC_BITS);
        } else if (address >= ENGINE_MRAM_BASE) {
            if (end > (uint64_t)ENGINE_MRAM_BASE + ENGINE_MRAM_SIZE)
                return fail(l, ENGINE_LOAD_MRAM_OVERFLOW,
                            "mram-overflow: section %s ends at %llu of %u bytes of MRAM", name,
                            (unsigned long long)(end - ENGINE_MRAM_BASE), ENGINE_MRAM_SIZE);
            if (!nothing && !add_image(l, 1, s, address - ENGINE_MRAM_BASE))
                return false;
        } else {
            if (address < 8)
                return fail(l, ENGINE_LOAD_INVALID,
                            "section %s is in the first 8 bytes of WRAM, which stay empty", name);
            if (end > l->wram_end)
                l->wram_end = end > UINT32_MAX ? UINT32_MAX : (uint32_t)end;
            bool reserved = nothing && (starts(name, ".noinit") || starts(name, ".stack"));
            /* what does not fit is refused below, with all the numbers */
            if (!reserved && end <= ENGINE_WRAM_MAX && !add_image(l, 0, s, address))
                return false;
        }
    }
    return true;
}

static bool host_visible(const loader_t *l, const Elf32_Sym *y, const char *name)
{
    if (!strcmp(name, "__sys_used_mram_end"))
        return true;
    if (y->st_shndx == SHN_UNDEF || y->st_shndx >= l->section_count ||
        ELF32_ST_TYPE(y->st_info) == STT_SECTION || ELF32_ST_TYPE(y->st_info) == STT_FILE ||
        (ELF32_ST_TYPE(y->st_info) == STT_NOTYPE && y->st_size == 0))
        return false;
    const char *section = section_name(l, &l->sections[y->st_shndx]);
    return starts(section, ".dpu_host") || starts(section, ".mram");
}

static void read_constant(loader_t *l, const char *name, uint32_t value)
{
    engine_program_t *p = l->program;
    if (!strcmp(name, "__nr_tasklets")) {
        p->tasklets = value;
        l->has_tasklets = true;
    } else if (!strcmp(name, "__stacks_start")) {
        l->stacks_start = value;
        l->has_stacks = true;
    } else if (!strcmp(name, "__stack_size")) {
        l->stack_size = value;
        l->has_stack_size = true;
    } else if (!strcmp(name, "__heap_start")) {
        p->heap_start = value;
        l->has_heap = true;
    } else if (!strcmp(name, "__log_size")) {
        p->log_size = value;
    } else if (starts(name, "__stack_size_")) {
        char *end;
        unsigned long t = strtoul(name + strlen("__stack_size_"), &end, 10);
        if (!*end && end > name + strlen("__stack_size_") && t < ENGINE_MAX_TASKLETS)
            l->stack_sizes[t] = value;
    }
}

static int by_address(const void *a, const void *b)
{
    const function_t *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static bool read_symbols(loader_t *l)
{
    engine_program_t *p = l->program;
    const Elf32_Shdr *table = NULL;
    for (uint32_t i = 0; i < l->section_count; i++)
        if (l->sections[i].sh_type == SHT_SYMTAB)
            table = &l->sections[i];
    if (!table || table->sh_link >= l->section_count || table->sh_offset % 4 ||
        l->sections[table->sh_link].sh_type != SHT_STRTAB)
        return fail(l, ENGINE_LOAD_INVALID, "no symbol table (stripped?)");
    const Elf32_Shdr *strings = &l->sections[table->sh_link];
    const Elf32_Sym *symbols = (const void *)(l->bytes + table->sh_offset);
    uint32_t count = table->sh_size / sizeof *symbols;
    p->names = malloc(strings->sh_size + 1);
    p->symbols = calloc(count + 1, sizeof *p->symbols);
    p->functions = calloc(count + 1, sizeof *p->functions);
    p->libraries = calloc(count + 1, sizeof *p->libraries);
    if (!p->names || !p->symbols || !p->functions || !p->libraries)
        return out_of_memory(l);
    memcpy(p->names, l->bytes + strings->sh_offset, strings->sh_size);
    p->names[strings->sh_size] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const Elf32_Sym *y = &symbols[i];
        const char *name = y->st_name < strings->sh_size ? p->names + y->st_name : "";
        uint32_t value = y->st_value, type = ELF32_ST_TYPE(y->st_info);
        read_constant(l, name, value);
        if (host_visible(l, y, name)) {
            engine_symbol_t *s = &p->symbols[p->symbol_count++];
            *s = (engine_symbol_t){name, value, y->st_size};
            if (!strcmp(name, "__sys_used_mram_end")) {
                if (value < ENGINE_MRAM_BASE || value > ENGINE_MRAM_BASE + ENGINE_MRAM_SIZE)
                    return fail(l, ENGINE_LOAD_MRAM_OVERFLOW,
                                "mram-overflow: MRAM data ends at %lld of %u bytes",
                                (long long)value - ENGINE_MRAM_BASE, ENGINE_MRAM_SIZE);
                s->size = ENGINE_MRAM_BASE + ENGINE_MRAM_SIZE - value;
            }
        }
        uint32_t offset = value - ENGINE_IRAM_BASE;
        bool code = value >= ENGINE_IRAM_BASE && offset / 4 < p->count && y->st_shndx != SHN_ABS;
        if (code && (type == STT_FUNC || (type == STT_NOTYPE && name[0] && name[0] != '.' &&
                                          name[0] != '$' && name[0] != 'L'))) {
            p->functions[p->function_count++] = (function_t){value, y->st_size, name};
            uint32_t slots = library_slots(name);
            if (slots && l->options->costs.library_table)
                p->libraries[p->library_count++] = (library_t){offset / 4, slots};
        }
    }
    qsort(p->functions, p->function_count, sizeof *p->functions, by_address);
    return true;
}

static bool check_tasklets(loader_t *l)
{
    engine_program_t *p = l->program;
    const engine_target_t *target = l->options->target;
    if (!l->has_tasklets || !l->has_stacks || !l->has_stack_size || !l->has_heap)
        return fail(l, ENGINE_LOAD_INVALID,
                    "no %s symbol: the program was not linked by the emulator's linker script",
                    !l->has_tasklets ? "__nr_tasklets"
                    : !l->has_stacks ? "__stacks_start"
                    : !l->has_heap   ? "__heap_start"
                                     : "__stack_size");
    if (p->tasklets < 1 || p->tasklets > target->tasklets || p->tasklets > ENGINE_MAX_TASKLETS)
        return fail(l, ENGINE_LOAD_TOO_MANY_TASKLETS, "%u tasklets: a %s DPU has 1 to %u",
                    p->tasklets, target->name, target->tasklets);
    uint64_t at = l->stacks_start;
    uint32_t sum = 0;
    for (uint32_t t = 0; t < p->tasklets; t++) {
        uint32_t size = l->stack_sizes[t] ? l->stack_sizes[t] : l->stack_size;
        if (size % 8 || size > ENGINE_WRAM_MAX)
            return fail(l, ENGINE_LOAD_INVALID,
                        "the stack of tasklet %u has %u bytes: a multiple of 8 up to %u is needed",
                        t, size, ENGINE_WRAM_MAX);
        p->stack_start[t] = (uint32_t)at;
        p->stack_size[t] = size;
        at += size;
        sum += size;
    }
    uint64_t end = at > l->wram_end ? at : l->wram_end;
    end = end > p->heap_start ? end : p->heap_start;
    if (end > target->wram_bytes)
        return fail(l, ENGINE_LOAD_WRAM_OVERFLOW,
                    "wram-overflow: data and stacks end at %llu of the %u bytes of a %s DPU, %llu "
                    "too many; %u tasklets have %u bytes of stack, data has %u",
                    (unsigned long long)end, target->wram_bytes, target->name,
                    (unsigned long long)(end - target->wram_bytes), p->tasklets, sum,
                    l->stacks_start);
    return true;
}

/* The code as it is executed: free instructions marked, sp and library routines watched. */
static bool finish_code(loader_t *l)
{
    engine_program_t *p = l->program;
    if (p->entry / 4 >= p->count)
        return fail(l, ENGINE_LOAD_INVALID, "the entry 0x%08x holds no code",
                    ENGINE_IRAM_BASE + p->entry);
    bool *leader = calloc(p->count + 1, sizeof *leader);
    p->code = malloc(p->count * sizeof *p->code);
    if (!leader || !p->code) {
        free(leader);
        return out_of_memory(l);
    }
    for (uint32_t i = 0; i < p->count; i++) {
        const insn_t *o = &p->original[i];
        uint32_t target = (uint32_t)o->imm / 4;
        if ((is_branch(o) || o->op == OP_JAL || o->op == OP_CALL) && o->imm >= 0 &&
            target < p->count)
            leader[target] = true;
    }
    for (uint32_t i = 0; i < p->function_count; i++)
        leader[(p->functions[i].address - ENGINE_IRAM_BASE) / 4] = true;
    if (l->options->costs.peepholes)
        find_peepholes(p->original, p->count, leader);
    free(leader);
    memcpy(p->code, p->original, p->count * sizeof *p->code);
    for (uint32_t i = 0; i < p->count; i++) {
        const insn_t *o = &p->original[i];
        if (o->op != OP_ILLEGAL)
            p->slots += o->op == OP_LW_PAIR || o->op == OP_SW_PAIR ? 0 : o->cost != 0;
        if (o->rd == 2)
            p->code[i].op = OP_STACK;
    }
    for (uint32_t i = 0; i < p->library_count; i++) {
        p->code[p->libraries[i].index].op = OP_LIBRARY;
        p->code[p->libraries[i].index].imm = (int32_t)p->libraries[i].slots;
    }
    const engine_target_t *target = l->options->target;
    if (p->slots > target->iram_slots)
        return fail(l, ENGINE_LOAD_IRAM_OVERFLOW,
                    "iram-overflow: the program takes about %u instructions (%u of RV32), a %s DPU "
                    "has %u",
                    p->slots, p->count, target->name, target->iram_slots);
    uint32_t nearly = target->iram_slots - target->iram_slots / 7; /* about 3,500 of 4,096 */
    if (p->slots > nearly) {
        p->warned = true;
        snprintf(p->warning, sizeof p->warning,
                 "IRAM nearly full: about %u instructions of %u; the vendor's compiler may need "
                 "more than this estimate",
                 p->slots, target->iram_slots);
    }
    return true;
}

engine_load_status_t engine_program_load(const void *elf, size_t size,
                                         const engine_options_t *options,
                                         engine_program_t **program, char *error,
                                         size_t error_size)
{
    *program = NULL;
    if (error_size)
        error[0] = 0;
    loader_t l = {.bytes = elf,
                  .size = size,
                  .section_names = "",
                  .options = options,
                  .error = error,
                  .error_size = error_size};
    if (!(l.program = calloc(1, sizeof *l.program))) {
        out_of_memory(&l);
        return l.status;
    }
    atomic_init(&l.program->references, 1);
    l.program->log_size = 1u << 20;
    if (open_elf(&l) && read_sections(&l) && read_symbols(&l) && check_tasklets(&l) &&
        finish_code(&l)) {
        *program = l.program;
        return ENGINE_LOAD_OK;
    }
    engine_program_release(l.program);
    return l.status;
}

engine_program_t *engine_program_retain(engine_program_t *program)
{
    atomic_fetch_add(&program->references, 1);
    return program;
}

void engine_program_release(engine_program_t *program)
{
    if (!program || atomic_fetch_sub(&program->references, 1) != 1)
        return;
    for (int memory = 0; memory < 2; memory++) {
        for (uint32_t i = 0; i < program->image_count[memory]; i++)
            free(program->images[memory][i].bytes);
        free(program->images[memory]);
    }
    free(program->code);
    free(program->original);
    free(program->symbols);
    free(program->functions);
    free(program->libraries);
    free(program->names);
    free(program->rows);
    free(program->files);
    free(program);
}

uint32_t engine_program_tasklets(const engine_program_t *program) { return program->tasklets; }
uint32_t engine_program_instructions(const engine_program_t *program) { return program->count; }
uint32_t engine_program_iram_slots(const engine_program_t *program) { return program->slots; }
uint32_t engine_program_heap_start(const engine_program_t *program) { return program->heap_start; }

const char *engine_program_warning(const engine_program_t *program)
{
    return program->warned ? program->warning : NULL;
}

const engine_symbol_t *engine_program_symbol(const engine_program_t *program, const char *name)
{
    for (uint32_t i = 0; i < program->symbol_count; i++)
        if (!strcmp(program->symbols[i].name, name))
            return &program->symbols[i];
    return NULL;
}

size_t engine_program_symbols(const engine_program_t *program, const engine_symbol_t **symbols)
{
    *symbols = program->symbols;
    return program->symbol_count;
}
