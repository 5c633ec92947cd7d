#include <defs.h>
#include <errno.h>

static int values[24];

int *__dpu_errno(void)
{
    return &values[me()];
}
