/* What is said of a long action's progress: on a terminal a bar that goes away, elsewhere whole lines, and of a short
 * one nothing. */
#include "tests/kit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "bench/progress.h"
#include "tests/kit/nap.h"

#define SOON_NS 1000000u
#define LATE_NS UINT64_C(60000000000)

typedef struct said {
    FILE *stream;
    char *text;
    size_t size;
} said;

static void listen_to(said *s) {
    s->stream = open_memstream(&s->text, &s->size);
    assert_non_null(s->stream);
}

static uint32_t count(const char *text, const char *word) {
    uint32_t found = 0;
    for (const char *next = text; (next = strstr(next, word)); next += strlen(word)) found++;
    return found;
}

/* Until its thread has looked at what is done now, and said so; up to 20 s. */
static void let_it_say(progress_bar *p, said *s, const char *word) {
    const uint64_t deadline = rota_deadline_after(20000000000u);
    bool found = false;
    while (!found && rota_clock_ns() < deadline) {
        test_nap_ms(2);
        (void)pthread_mutex_lock(&p->lock); /* it writes under this */
        (void)fflush(s->stream);
        found = strstr(s->text, word) != NULL;
        (void)pthread_mutex_unlock(&p->lock);
    }
    if (!found) fail_msg("'%s' was not said: '%s'", word, s->text);
}

static void a_terminal_has_a_bar(void **state) {
    (void)state;
    said s = {0};
    progress_bar p;
    listen_to(&s);
    progress_begin_on(&p, s.stream, true, SOON_NS, SOON_NS, "counting", "sheep", 4000);
    progress_at(&p, 1000);
    progress_note(&p, "loss %.1f", 2.5);
    let_it_say(&p, &s, "\r\033[K[######..................]  25%  counting  ");
    let_it_say(&p, &s, " sheep/s  0:0");
    let_it_say(&p, &s, " left  loss 2.5");
    progress_clear(&p);
    progress_end(&p);
    (void)fclose(s.stream);
    assert_int_equal(count(s.text, "\n"), 0);
    assert_string_equal(s.text + strlen(s.text) - strlen("\r\033[K"), "\r\033[K"); /* it is gone */
    free(s.text);
}

static void elsewhere_are_whole_lines(void **state) {
    (void)state;
    said s = {0};
    progress_bar p;
    listen_to(&s);
    progress_begin_on(&p, s.stream, false, SOON_NS, SOON_NS, "counting", "sheep", 200);
    progress_from(&p, 100);
    let_it_say(&p, &s, "counting  50%  0.0 sheep/s  0:0");
    progress_at(&p, 150);
    let_it_say(&p, &s, "counting  75%  ");
    progress_end(&p);
    (void)fclose(s.stream);
    assert_int_equal(count(s.text, "\r") + count(s.text, "\033"), 0);
    assert_int_equal(s.text[strlen(s.text) - 1], '\n');
    free(s.text);
}

/* What was there before counts for neither rate nor time left: one of 500 took a tenth of a second at least. */
static void what_was_before_has_no_rate(void **state) {
    (void)state;
    said s = {0};
    progress_bar p;
    listen_to(&s);
    progress_begin_on(&p, s.stream, false, 100 * SOON_NS, SOON_NS, "counting", "sheep", 1000);
    progress_from(&p, 500);
    progress_at(&p, 501);
    let_it_say(&p, &s, " left\n");
    progress_end(&p);
    (void)fclose(s.stream);
    assert_int_equal(count(s.text, " 0:00 left") + count(s.text, "k sheep/s"), 0);
    free(s.text);
}

static void one_call_shows_that_it_goes_on(void **state) {
    (void)state;
    said s = {0};
    progress_bar p;
    listen_to(&s);
    progress_begin_on(&p, s.stream, false, SOON_NS, SOON_NS, "compiling", NULL, 0);
    let_it_say(&p, &s, "compiling  0:00 so far\n");
    progress_end(&p);
    (void)fclose(s.stream);
    free(s.text);
}

static void what_is_short_says_nothing(void **state) {
    (void)state;
    said s = {0};
    progress_bar p;
    listen_to(&s);
    const uint64_t begin = rota_clock_ns();
    for (int terminal = 0; terminal < 2; terminal++) {
        progress_begin_on(&p, s.stream, terminal, LATE_NS, SOON_NS, "counting", "sheep", 4);
        progress_at(&p, 4);
        progress_clear(&p);
        progress_end(&p);
    }
    assert_true(rota_clock_ns() - begin < LATE_NS); /* nor does its end wait */
    (void)fclose(s.stream);
    assert_string_equal(s.text, "");
    free(s.text);
    progress_at(NULL, 3); /* nobody who wants to know */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_terminal_has_a_bar),        cmocka_unit_test(elsewhere_are_whole_lines),
        cmocka_unit_test(what_was_before_has_no_rate), cmocka_unit_test(one_call_shows_that_it_goes_on),
        cmocka_unit_test(what_is_short_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
