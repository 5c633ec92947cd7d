/* Device tests: the first condition that fails is told to the host by its line. */
#include <defs.h>
#include <mutex.h>
#include <stdint.h>

__host uint32_t failed_line, failed_tasklet, failed_value, launches;
MUTEX_INIT(check_mutex);

static inline void check(int holds, uint32_t line, uint32_t value)
{
    if (holds)
        return;
    mutex_lock(check_mutex);
    if (!failed_line) {
        failed_line = line;
        failed_tasklet = me();
        failed_value = value;
    }
    mutex_unlock(check_mutex);
}

#define CHECK(condition) check(condition, __LINE__, 0)
#define EQUAL(value, expected)                                                                     \
    do {                                                                                           \
        uint32_t value_ = (uint32_t)(value);                                                       \
        check(value_ == (uint32_t)(expected), __LINE__, value_);                                   \
    } while (0)
