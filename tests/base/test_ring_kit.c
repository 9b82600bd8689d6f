/* The same as test_ring.c of what a release has, Concurrency Kit's ring; under the thread sanitizer once more of C11's.
 */
#undef ROTA_TEST_STOPS
#include "tests/base/test_ring.c" /* NOLINT(bugprone-suspicious-include) */
