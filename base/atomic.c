/* Storage of the mark hook (test builds only). */
#include "base/atomic.h"

#ifdef ROTA_TEST_MARKS
_Thread_local rota_mark_fn rota_mark_hook;
_Thread_local void *rota_mark_user;
#else
typedef int rota_atomic_has_no_storage;
#endif
