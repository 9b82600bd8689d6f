/* Whether this build has the hooks of tests (ROTA_TEST_HOOKS): what changes how the library works for a test or a
 * benchmark's sake, which nobody can ask of the library that is installed. Internal. */
#ifndef ROTA_BASE_HOOKS_H
#define ROTA_BASE_HOOKS_H

#ifndef ROTA_TEST_HOOKS
#define ROTA_TEST_HOOKS 0
#endif

#endif
