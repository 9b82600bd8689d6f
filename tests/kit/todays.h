/* Some of what a test looks at, another part each day, so that all was looked at after as many days as there are parts:
 * ROTA_TEST_PARTS, by default 1. ROTA_DRAW, the day's number, repeats a day's (tests/draw.sh). */
#ifndef ROTA_TESTS_TODAYS_H
#define ROTA_TESTS_TODAYS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct test_todays {
    uint64_t parts, part;
} test_todays;

static inline uint64_t test_day(void) {
    const char *drawn = getenv("ROTA_DRAW");
    return drawn ? strtoull(drawn, NULL, 10) : (uint64_t)time(NULL) / 86400;
}

static inline test_todays test_todays_part(void) {
    const char *parts = getenv("ROTA_TEST_PARTS");
    const uint64_t day = test_day();
    test_todays todays = {parts ? strtoull(parts, NULL, 10) : 1, 0};
    if (todays.parts == 0) todays.parts = 1;
    todays.part = day % todays.parts;
    if (todays.parts > 1)
        printf("part %llu of %llu (ROTA_DRAW=%llu repeats it)\n", (unsigned long long)todays.part + 1,
               (unsigned long long)todays.parts, (unsigned long long)day);
    return todays;
}

#endif
