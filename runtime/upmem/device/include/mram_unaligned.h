/*
 * MRAM accesses of any address and size. MRAM moves in words of 8 bytes: what covers a word in
 * part reads, changes and writes it back under a lock, so that tasklets that share a word keep
 * each other's bytes as long as all of them come this way.
 */
#ifndef DPU_MRAM_UNALIGNED_H
#define DPU_MRAM_UNALIGNED_H

#include <attributes.h>
#include <stdint.h>

/*
 * Reads the bytes and returns where in `buffer` they begin. `buffer` is a multiple of 8 and
 * holds nb_of_bytes + 16, rounded up to 8.
 */
void *mram_read_unaligned(const __mram_ptr void *from, void *buffer, unsigned int nb_of_bytes);

/* Writes the bytes. Both addresses must agree in their low 3 bits, else runtime fault 8. */
void mram_write_unaligned(const void *from, __mram_ptr void *dest, unsigned int nb_of_bytes);

/* The word that holds `dest`, locked and read: returns where `dest` is in WRAM. */
void *__mram_word_open(__mram_ptr void *dest);
/* Writes the word back and unlocks it. */
void __mram_word_close(__mram_ptr void *dest);

#define __MRAM_WORD_UPDATE(type, dest, statement)                                                  \
    do {                                                                                           \
        __mram_ptr void *__word_address = (__mram_ptr void *)(dest);                               \
        type *__word_value = (type *)__mram_word_open(__word_address);                             \
        statement;                                                                                 \
        __mram_word_close(__word_address);                                                         \
    } while (0)

/* One tasklet at a time: update(&value, args) on an aligned int, or a byte, in MRAM. */
#define mram_update_int_atomic(dest, update, args)                                                 \
    __MRAM_WORD_UPDATE(int, dest, (update)(__word_value, args))
#define mram_update_byte_atomic(dest, update, args)                                                \
    __MRAM_WORD_UPDATE(uint8_t, dest, (update)(__word_value, args))
#define mram_write_int_atomic(dest, val) __MRAM_WORD_UPDATE(int, dest, *__word_value = (val))
#define mram_write_byte_atomic(dest, val) __MRAM_WORD_UPDATE(uint8_t, dest, *__word_value = (val))

#endif
