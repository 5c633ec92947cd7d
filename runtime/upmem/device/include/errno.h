#ifndef DPU_ERRNO_H
#define DPU_ERRNO_H

int *__dpu_errno(void); /* one for each tasklet */
#define errno (*__dpu_errno())

#define ENOMEM 12
#define EINVAL 22
#define ERANGE 34
#define EALREADY 114

#endif
