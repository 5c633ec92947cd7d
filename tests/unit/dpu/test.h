/* Host tests: the first thing that is not as it should be ends the program. */
#include <dpu.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "FAILED %s:%d: %s\n", __FILE__, __LINE__, #condition);                 \
            exit(2);                                                                               \
        }                                                                                          \
    } while (0)

#define EXPECT(error, call)                                                                        \
    do {                                                                                           \
        dpu_error_t got_ = (call);                                                                 \
        if (got_ != (error)) {                                                                     \
            fprintf(stderr, "FAILED %s:%d: %s gave %d (%s), not %s\n", __FILE__, __LINE__, #call,  \
                    (int)got_, dpu_error_to_string(got_), #error);                                 \
            exit(2);                                                                               \
        }                                                                                          \
    } while (0)

static inline void set_operation(struct dpu_set_t set, uint32_t operation)
{
    EXPECT(DPU_OK, dpu_broadcast_to(set, "operation", 0, &operation, 4, DPU_XFER_DEFAULT));
}
