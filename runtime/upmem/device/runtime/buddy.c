/*
 * Buddies of 32 << order bytes. A byte for each 32 says what begins there: USED or FREE with the
 * order, or INSIDE a block. Free blocks of an order are a doubly linked list through the blocks.
 */
#include <alloc.h>
#include <atomic_bit.h>
#include <defs.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#define UNIT 32u
#define ORDERS 8 /* 32 << 7 = 4096 */
#define INSIDE 0x00
#define USED 0x40
#define FREE 0x80

typedef struct node {
    struct node *next, *previous;
} node_t;

static char *heap;
static uint32_t units;
static uint8_t *map;
static node_t *free_lists[ORDERS];

__attribute__((section(".bss.atomic.runtime"))) static uint8_t lock;

static void push(uint32_t unit, uint32_t order)
{
    node_t *node = (node_t *)(heap + unit * UNIT);
    node->previous = NULL;
    node->next = free_lists[order];
    if (node->next)
        node->next->previous = node;
    free_lists[order] = node;
    map[unit] = (uint8_t)(FREE | order);
}

static void unlink_free(uint32_t unit, uint32_t order)
{
    node_t *node = (node_t *)(heap + unit * UNIT);
    if (node->previous)
        node->previous->next = node->next;
    else
        free_lists[order] = node->next;
    if (node->next)
        node->next->previous = node->previous;
    map[unit] = INSIDE;
}

void buddy_init(size_t size_of_heap)
{
    if (size_of_heap < 2048 || size_of_heap > 32768 || (size_of_heap & (size_of_heap - 1))) {
        errno = EINVAL;
        return;
    }
    char *start = mem_alloc(size_of_heap + size_of_heap / UNIT);
    __dpu_acquire((uint32_t)&lock);
    heap = start;
    units = size_of_heap / UNIT;
    map = (uint8_t *)heap + size_of_heap;
    memset(map, INSIDE, units);
    memset(free_lists, 0, sizeof free_lists);
    uint32_t order = size_of_heap < 4096 ? ORDERS - 2 : ORDERS - 1;
    for (uint32_t unit = 0; unit < units; unit += 1u << order)
        push(unit, order);
    __dpu_release((uint32_t)&lock);
}

static uint32_t order_of(size_t size)
{
    uint32_t order = 0;
    while ((UNIT << order) < size)
        order++;
    return order;
}

void *buddy_alloc(size_t size)
{
    if (size == 0 || size > UNIT << (ORDERS - 1) || !heap) {
        errno = EINVAL;
        return NULL;
    }
    uint32_t order = order_of(size), from = order;
    void *block = NULL;
    __dpu_acquire((uint32_t)&lock);
    while (from < ORDERS && !free_lists[from])
        from++;
    if (from < ORDERS) {
        uint32_t unit = (uint32_t)((char *)free_lists[from] - heap) / UNIT;
        unlink_free(unit, from);
        while (from > order) {
            from--;
            push(unit + (1u << from), from);
        }
        map[unit] = (uint8_t)(USED | order);
        block = heap + unit * UNIT;
        __dpu_fresh((uint32_t)block, UNIT << order);
    }
    __dpu_release((uint32_t)&lock);
    if (!block)
        errno = ENOMEM;
    return block;
}

/* The order of a block in use, or ORDERS. */
static uint32_t used_order(void *block)
{
    uint32_t offset = (uint32_t)((char *)block - heap);
    if (!heap || offset % UNIT || offset / UNIT >= units || !(map[offset / UNIT] & USED))
        return ORDERS;
    return map[offset / UNIT] & (ORDERS - 1);
}

void buddy_free(void *block)
{
    __dpu_acquire((uint32_t)&lock);
    uint32_t order = used_order(block);
    if (order < ORDERS) {
        uint32_t unit = (uint32_t)((char *)block - heap) / UNIT;
        map[unit] = INSIDE;
        while (order < ORDERS - 1) {
            uint32_t buddy = unit ^ (1u << order);
            if (buddy >= units || map[buddy] != (FREE | order))
                break;
            unlink_free(buddy, order);
            unit &= ~(1u << order);
            order++;
        }
        push(unit, order);
        __dpu_release((uint32_t)&lock);
        return;
    }
    __dpu_release((uint32_t)&lock);
    errno = EINVAL;
}

void *buddy_realloc(void *block, size_t size)
{
    if (!block)
        return buddy_alloc(size);
    __dpu_acquire((uint32_t)&lock);
    uint32_t order = used_order(block);
    __dpu_release((uint32_t)&lock);
    if (order == ORDERS || size == 0) {
        errno = EINVAL;
        return NULL;
    }
    if (size <= UNIT << order && order_of(size) == order)
        return block;
    void *other = buddy_alloc(size);
    if (!other)
        return NULL;
    uint32_t old = UNIT << order;
    memcpy(other, block, size < old ? size : old);
    buddy_free(block);
    return other;
}
