/* Arguments that a call can't do without: NULL in their place is refused where the call enters. Internal; not
 * installed. */
#ifndef ROTA_BASE_GIVEN_H
#define ROTA_BASE_GIVEN_H

#include "base/status.h"

/* Returns INVALID_ARGUMENT from a public function whose argument is NULL: "rota_buffer_create_view: parent is
 * NULL". */
#define ROTA_GIVEN(argument)                                                                                 \
    do {                                                                                                     \
        if (__builtin_expect(!(argument), 0))                                                                \
            return rota_fail(ROTA_INVALID_ARGUMENT, "%s: %s is NULL", __func__, #argument);                  \
    } while (0)

/* The same of an array, which may be NULL where it has no elements. */
#define ROTA_GIVEN_ARRAY(argument, count)                                                                    \
    do {                                                                                                     \
        if ((count) != 0) ROTA_GIVEN(argument);                                                              \
    } while (0)

#endif
