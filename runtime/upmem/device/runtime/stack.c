#include <defs.h>
#include <stdint.h>

/* First bytes of the tasklets' stacks, from the linker script. */
extern char __stack_base_0[], __stack_base_1[], __stack_base_2[], __stack_base_3[],
    __stack_base_4[], __stack_base_5[], __stack_base_6[], __stack_base_7[], __stack_base_8[],
    __stack_base_9[], __stack_base_10[], __stack_base_11[], __stack_base_12[], __stack_base_13[],
    __stack_base_14[], __stack_base_15[], __stack_base_16[], __stack_base_17[],
    __stack_base_18[], __stack_base_19[], __stack_base_20[], __stack_base_21[],
    __stack_base_22[], __stack_base_23[];

static char *const bases[] = {
    __stack_base_0,  __stack_base_1,  __stack_base_2,  __stack_base_3,  __stack_base_4,
    __stack_base_5,  __stack_base_6,  __stack_base_7,  __stack_base_8,  __stack_base_9,
    __stack_base_10, __stack_base_11, __stack_base_12, __stack_base_13, __stack_base_14,
    __stack_base_15, __stack_base_16, __stack_base_17, __stack_base_18, __stack_base_19,
    __stack_base_20, __stack_base_21, __stack_base_22, __stack_base_23,
};

unsigned int check_stack(void)
{
    uint32_t sp;
    __asm__ volatile("mv %0, sp" : "=r"(sp));
    return (sp - (uint32_t)bases[me()]) / 4;
}
