/* Where every tasklet begins. The engine has set sp; a tasklet that returns from main ends. */
#include <attributes.h>

__attribute__((naked, noreturn, used, section(".text.start"))) void __start(void)
{
    __asm__("call main\n"
            ".insn r 0x0b, 4, 1, x0, x0, x0\n");
}
