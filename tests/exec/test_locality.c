/* Which CPUs are near a device, of a machine that is made up: two packages of two memories, with a device on
 * a core, one on a memory and one on a package; and an executor's thread that serves one. */
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "exec/common/completer.h"
#include "exec/locality.h"
#include "tests/kit/nap.h"
#include "tests/kit/support.h"

static char path[] = "/tmp/rota-test-XXXXXX";

/* `text` after the first `mark` behind `*at`; `*at` is behind it then. */
static void insert(char **at, const char *mark, const char *text) {
    char *place = strstr(*at, mark);
    assert_non_null(place);
    place += strlen(mark);
    memmove(place + strlen(text), place, strlen(place) + 1);
    memcpy(place, text, strlen(text));
    *at = place + strlen(text);
}

/* As hwloc writes it of a real machine, with the devices put in: on the first core, on the second
 * memory, and on the second package. */
static int open_machine(void **state) {
    (void)state;
    hwloc_topology_t topology;
    char *text;
    int length;
    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_set_synthetic(topology, "pack:2 node:2 l3:2 core:2 pu:1"), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    assert_int_equal(hwloc_topology_export_xmlbuffer(topology, &text, &length, 0), 0);
    char *xml = calloc(1, (size_t)length + 4096), *at = xml;
    assert_non_null(xml);
    memcpy(xml, text, strlen(text));
    hwloc_free_xmlbuffer(topology, text);
    hwloc_topology_destroy(topology);
    insert(&at, "type=\"PU\"", "");
    insert(&at, "/>\n",
           "            <object type=\"Bridge\" gp_index=\"904\" bridge_type=\"0-1\" depth=\"0\" "
           "bridge_pci=\"0000:[30-31]\">\n"
           "              <object type=\"PCIDev\" gp_index=\"905\" pci_busid=\"0000:31:00.0\" "
           "pci_type=\"0302 [10de:2330] [10de:16c1] a1\" pci_link_speed=\"0.000000\"/>\n"
           "            </object>\n");
    at = xml;
    /* A Group is what has a memory. Its end is that of its second cache. */
    for (int group = 0; group < 2; group++) {
        at = strstr(at, "type=\"Group\"");
        assert_non_null(at);
        at++;
    }
    insert(&at, "        </object>\n        <object type=\"L3Cache\"", "");
    insert(&at, "\n        </object>\n",
           "        <object type=\"Bridge\" gp_index=\"900\" bridge_type=\"0-1\" depth=\"0\" "
           "bridge_pci=\"0000:[10-11]\">\n"
           "          <object type=\"PCIDev\" gp_index=\"901\" pci_busid=\"0000:11:00.0\" "
           "pci_type=\"0302 [10de:2330] [10de:16c1] a1\" pci_link_speed=\"0.000000\"/>\n"
           "        </object>\n");
    for (int group = 0; group < 2; group++) insert(&at, "\n      </object>\n", "");
    insert(&at, "\n      </object>\n",
           "      <object type=\"Bridge\" gp_index=\"902\" bridge_type=\"0-1\" depth=\"0\" "
           "bridge_pci=\"0000:[20-21]\">\n"
           "        <object type=\"PCIDev\" gp_index=\"903\" pci_busid=\"0000:21:00.0\" "
           "pci_type=\"0302 [10de:2330] [10de:16c1] a1\" pci_link_speed=\"0.000000\"/>\n"
           "      </object>\n");
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, xml, strlen(xml)), strlen(xml));
    assert_int_equal(close(fd), 0);
    free(xml);
    return 0;
}

static int remove_machine(void **state) {
    (void)state;
    return unlink(path);
}

static bool cpus_near(const char *pci, cpu_set_t *out) {
    CPU_ZERO(out);
    assert_int_equal(setenv("HWLOC_XMLFILE", path, 1), 0);
    const bool found = rota_locality_cpus(pci, out);
    assert_int_equal(unsetenv("HWLOC_XMLFILE"), 0);
    return found;
}

static void expect_cpus(const cpu_set_t *cpus, int first, int count) {
    assert_int_equal(CPU_COUNT(cpus), count);
    for (int i = 0; i < count; i++) assert_true(CPU_ISSET((size_t)(first + i), cpus));
}

static void those_of_what_it_hangs_on(void **state) {
    (void)state;
    cpu_set_t cpus;
    assert_true(cpus_near("0000:11:00.0", &cpus));
    expect_cpus(&cpus, 4, 4);
    assert_true(cpus_near("0000:21:00.0", &cpus));
    expect_cpus(&cpus, 8, 8);
    assert_true(cpus_near("0000:31:00.0", &cpus));
    expect_cpus(&cpus, 0, 1);
}

static void nothing_is_known(void **state) {
    (void)state;
    cpu_set_t cpus;
    assert_false(cpus_near("0000:41:00.0", &cpus));
    assert_false(cpus_near("no bus id", &cpus));
    assert_false(cpus_near("", &cpus));
    assert_int_equal(setenv("HWLOC_XMLFILE", "/nowhere/at/all", 1), 0);
    assert_false(rota_locality_cpus("0000:11:00.0", &cpus));
    assert_int_equal(unsetenv("HWLOC_XMLFILE"), 0);
}

static void *until_close(void *user) {
    rota_completer_shared *completer = user;
    while (!ra_load_acquire(&completer->closing)) test_nap(); /* pairs with rota_completer_stop */
    rota_completer_is_done(completer);
    return NULL;
}

/* Where an executor's thread runs that serves such a device. */
static cpu_set_t cpus_of_thread(const char *pci) {
    rota_completer_shared completer = {0};
    cpu_set_t cpus;
    assert_int_equal(setenv("HWLOC_XMLFILE", path, 1), 0);
    assert_ok(rota_completer_start(&completer, until_close, &completer, "made up", pci));
    assert_int_equal(unsetenv("HWLOC_XMLFILE"), 0);
    assert_int_equal(pthread_getaffinity_np(completer.thread, sizeof cpus, &cpus), 0);
    assert_int_equal(rota_completer_stop(&completer, rota_deadline_after(10000000000u)),
                     ROTA_COMPLETER_QUIET);
    return cpus;
}

static void a_thread_stays_near_its_device(void **state) {
    (void)state;
    cpu_set_t all, cpus;
    assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2 || !CPU_ISSET(0, &all)) skip();
    cpus = cpus_of_thread("0000:31:00.0");
    expect_cpus(&cpus, 0, 1);
    cpus = cpus_of_thread("");
    assert_true(CPU_EQUAL(&cpus, &all));
    cpus = cpus_of_thread("0000:41:00.0");
    assert_true(CPU_EQUAL(&cpus, &all));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(those_of_what_it_hangs_on),
                                       cmocka_unit_test(nothing_is_known),
                                       cmocka_unit_test(a_thread_stays_near_its_device)};
    return cmocka_run_group_tests(tests, open_machine, remove_machine);
}
