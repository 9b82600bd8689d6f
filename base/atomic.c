/* Storage of the stop hook (test builds only). */
#include "base/atomic.h"

#ifdef ROTA_TEST_STOPS
_Thread_local rota_stop_fn rota_stop_hook;
_Thread_local void *rota_stop_user;
#else
typedef int rota_atomic_has_no_storage;
#endif
