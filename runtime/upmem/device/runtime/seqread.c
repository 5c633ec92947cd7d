#include <alloc.h>
#include <dpu_instructions.h>
#include <seqread.h>

seqreader_buffer_t __seqread_alloc(uint32_t page)
{
    /* The cache begins at a multiple of its page. */
    uint32_t block = (uint32_t)mem_alloc(3 * page);
    return (block + page - 1) & ~(page - 1);
}

static void load(seqreader_t *reader, uint32_t page)
{
    __dpu_dma_read(reader->wram_cache, reader->mram_addr, 2 * page);
}

void *__seqread_seek(uintptr_t mram, seqreader_t *reader, uint32_t page)
{
    uintptr_t first = mram & ~(uintptr_t)(page - 1);
    if (first != reader->mram_addr) {
        reader->mram_addr = first;
        load(reader, page);
    }
    return (void *)(reader->wram_cache + (mram - first));
}

void *__seqread_next(uint32_t position, seqreader_t *reader, uint32_t page)
{
    reader->mram_addr += position & ~(page - 1);
    load(reader, page);
    return (void *)(reader->wram_cache + (position & (page - 1)));
}
