/*
 * Rendezvous of two tasklets: handshake_notify() sleeps until some tasklet waits for the caller,
 * handshake_wait_for(notifier) until that one notifies.
 */
#ifndef DPU_HANDSHAKE_H
#define DPU_HANDSHAKE_H

#include <defs.h>

void handshake_notify(void);
/* 0, EALREADY if another tasklet waits for that one, EINVAL for the caller itself. */
int handshake_wait_for(sysname_t notifier);

#endif
