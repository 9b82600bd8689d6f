/* Files that the library writes appear whole under their own names and follow nobody's links; cache files are
 * believed only where nobody else can have written them. */
#include "tests/kit/runtime_support.h"

#include <errno.h>
#include <fcntl.h>
#include <iconv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "ops/cuda/choices.h"
#include "ops/cuda/image_cache.h"
#include "tests/kit/files_kit.h"
#ifdef ROTA_HAVE_CUDA
#include "tests/exec/cuda/exec_cuda_kit.h"
#endif

/* A plan of one node, for no device. */
static rota_plan *analysed(const char *name, rota_buffer *buffer) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = name), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, buffer, 0, ROTA_WHOLE, 0, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(NULL, graph, NULL, &plan));
    rota_graph_release(graph);
    return plan;
}

/* ---- Writing ---- */

/* Links at every name that the process number and a counter make. */
static void links_at_guessable_names_are_left_alone(void **state) {
    (void)state;
    char folder[] = FILES_FOLDER, victim[128], path[128], link[256];
    files_make(folder);
    snprintf(victim, sizeof victim, "%s/victim", folder);
    snprintf(path, sizeof path, "%s/plan.dot", folder);
    files_write(victim, "precious", 8);
    for (int i = 0; i < 64; i++) {
        snprintf(link, sizeof link, "%s.%ld-%d.tmp", path, (long)getpid(), i);
        assert_int_equal(symlink("victim", link), 0);
    }
    snprintf(link, sizeof link, "%s.tmp", path);
    assert_int_equal(symlink("victim", link), 0);
    snprintf(link, sizeof link, "%s.%ld.tmp", path, (long)getpid());
    assert_int_equal(symlink("victim", link), 0);
    rota_buffer *buffer;
    assert_ok(rota_buffer_create("x", 256, &buffer));
    rota_plan *plan = analysed("plan", buffer);
    assert_ok(rota_plan_write_dot(plan, path));
    char text[64];
    assert_int_equal(files_read(victim, text, sizeof text), 8);
    assert_memory_equal(text, "precious", 8);
    assert_int_equal(files_read(path, text, 7), 7);
    assert_memory_equal(text, "digraph", 7);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
    files_remove(folder);
}

/* A name as long as a name may be, and nothing but it is left in the folder, whatever happens. */
static void only_the_file_itself_appears(void **state) {
    (void)state;
    char folder[] = FILES_FOLDER, path[512], text[16];
    files_make(folder);
    int length = snprintf(path, sizeof path, "%s/", folder);
    memset(path + length, 'n', 255);
    path[length + 255] = 0;
    rota_buffer *buffer;
    assert_ok(rota_buffer_create("x", 256, &buffer));
    rota_plan *plan = analysed("plan", buffer);
    assert_ok(rota_plan_write_dot(plan, path));
    assert_int_equal(files_count(folder), 1);
    rota_file file;
    assert_int_equal(rota_file_open(&file, path, 0666), 0);
    assert_int_equal(files_count(folder), 2);
    fputs("half", file.stream);
    rota_file_abandon(&file);
    assert_int_equal(files_count(folder), 1);
    assert_int_equal(files_read(path, text, 7), 7);
    assert_memory_equal(text, "digraph", 7);
    assert_int_equal(rota_file_open(&file, path, 0600), 0);
    fputs("whole", file.stream);
    assert_int_equal(rota_file_commit(&file), 0);
    assert_int_equal(files_read(path, text, sizeof text), 5);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(files_count(folder), 1);
    assert_int_equal(rota_file_open(&file, folder, 0666), EISDIR);
    path[length + 255] = 'n'; /* a byte too long, which is known at once */
    path[length + 256] = 0;
    assert_int_equal(rota_file_open(&file, path, 0666), ENAMETOOLONG);
    assert_status(rota_plan_write_dot(plan, path), ROTA_SYSTEM);
    assert_int_equal(files_count(folder), 1);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
    files_remove(folder);
}

/* A device is written, not replaced; a full one is said. A link to a file is replaced, and not followed. */
static void what_is_no_file_is_written_directly(void **state) {
    (void)state;
    char folder[] = FILES_FOLDER, link[128], victim[128], text[16];
    struct stat status;
    rota_file file;
    files_make(folder);
    snprintf(link, sizeof link, "%s/link", folder);
    snprintf(victim, sizeof victim, "%s/victim", folder);
    assert_int_equal(symlink("/dev/full", link), 0);
    assert_int_equal(rota_file_open(&file, link, 0666), 0);
    fputs("more than there is room for", file.stream);
    assert_int_equal(rota_file_commit(&file), ENOSPC);
    assert_int_equal(lstat(link, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(unlink(link), 0);
    files_write(victim, "precious", 8);
    assert_int_equal(symlink("victim", link), 0);
    assert_int_equal(rota_file_open(&file, link, 0666), 0);
    fputs("new", file.stream);
    assert_int_equal(rota_file_commit(&file), 0);
    assert_int_equal(files_read(victim, text, sizeof text), 8);
    assert_int_equal(files_read(link, text, sizeof text), 3);
    files_remove(folder);
}

/* What the process has open, by its number, is written and no name replaced, though it be a file. */
static void open_files_are_written_directly(void **state) {
    (void)state;
    char folder[] = FILES_FOLDER, path[128], name[64], text[16];
    struct stat before, after;
    rota_file file;
    files_make(folder);
    snprintf(path, sizeof path, "%s/out", folder);
    files_write(path, "what was there before", 21);
    assert_int_equal(stat(path, &before), 0);
    const int descriptor = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(descriptor >= 0);
    snprintf(name, sizeof name, "/dev/fd/%d", descriptor);
    assert_int_equal(rota_file_open(&file, name, 0666), 0);
    fputs("new", file.stream);
    assert_int_equal(rota_file_commit(&file), 0);
    close(descriptor);
    assert_int_equal(files_read(path, text, sizeof text), 3);
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino == after.st_ino);
    assert_int_equal(files_count(folder), 1);
    files_remove(folder);
}

/* Names may be any bytes; what is written is UTF-8, with U+FFFD for each byte that is none. */
static void names_that_are_not_utf8_are_written_as_utf8(void **state) {
    (void)state;
    char folder[] = FILES_FOLDER, path[128], text[4096], wide[4 * 4096];
    files_make(folder);
    snprintf(path, sizeof path, "%s/plan.dot", folder);
    /* A byte alone, a lead cut off, overlong, a surrogate, above U+10FFFF; then what is good. */
    static const char name[] = "a\xff"
                               "b\xc3"
                               "c\xc0\xaf"
                               "d\xed\xa0\x80"
                               "e\xf4\x90\x80\x80"
                               "f\xc3\xa9\xf0\x9f\x8e\x89\xe2\x82";
    static const char wanted[] = "digraph \"a\xef\xbf\xbd"
                                 "b\xef\xbf\xbd"
                                 "c\xef\xbf\xbd\xef\xbf\xbd"
                                 "d\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                                 "e\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                                 "f\xc3\xa9\xf0\x9f\x8e\x89\xef\xbf\xbd\xef\xbf\xbd\"";
    rota_buffer *buffer;
    assert_ok(rota_buffer_create(name, 256, &buffer));
    rota_plan *plan = analysed(name, buffer);
    assert_ok(rota_plan_write_dot(plan, path));
    const size_t size = files_read(path, text, sizeof text - 1);
    text[size] = 0;
    assert_memory_equal(text, wanted, sizeof wanted - 1);
    iconv_t check = iconv_open("UTF-32LE", "UTF-8");
    assert_true(check != (iconv_t)-1);
    char *in = text, *out = wide;
    size_t in_left = size, out_left = sizeof wide;
    assert_int_equal(iconv(check, &in, &in_left, &out, &out_left), 0);
    assert_int_equal(in_left, 0);
    iconv_close(check);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
    files_remove(folder);
}

/* ---- Caches ---- */

/* Each change, and whether the file is still to be believed after it. */
typedef enum change { NONE, GROUP, OTHERS, READABLE, LINK, STRANGER, PIPE, CHANGES } change;
static const bool believed[CHANGES] = {[NONE] = true, [READABLE] = true};

static bool make_change(change what, const char *path) {
    char moved[256];
    snprintf(moved, sizeof moved, "%s.moved", path);
    switch (what) {
    case NONE:
    case CHANGES:
        break;
    case GROUP:
        assert_int_equal(chmod(path, 0620), 0);
        break;
    case OTHERS:
        assert_int_equal(chmod(path, 0602), 0);
        break;
    case READABLE:
        assert_int_equal(chmod(path, 0644), 0);
        break;
    case LINK:
        assert_int_equal(rename(path, moved), 0);
        assert_int_equal(symlink(moved, path), 0);
        break;
    case STRANGER:
        if (geteuid() != 0) return false; /* only root gives files away */
        assert_int_equal(chown(path, 12345, 12345), 0);
        break;
    case PIPE: /* opening it must not wait for a writer */
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkfifo(path, 0600), 0);
        break;
    }
    return true;
}

static void choices_of_strangers_are_ignored(void **state) {
    (void)state;
    for (change c = NONE; c < CHANGES; c++) {
        char folder[] = FILES_FOLDER, path[256];
        files_make(folder);
        rota_choices_forget();
        uint32_t value = 7, got = 0;
        rota_choices_remember(folder, "key", &value, sizeof value);
        rota_choices_forget();
        assert_true(rota_choices_path(folder, "key", path, sizeof path));
        assert_string_equal(path + strlen(folder), "/choice-3dc94a19365b10ec"); /* for ever */
        if (make_change(c, path) && rota_choices_find(folder, "key", &got, sizeof got) != believed[c])
            fail_msg("change %d: found %d", (int)c, !believed[c]);
        files_remove(folder);
    }
    rota_choices_forget();
}

static void images_of_strangers_are_ignored(void **state) {
    (void)state;
    for (change c = NONE; c < CHANGES; c++) {
        char folder[] = FILES_FOLDER, path[256];
        files_make(folder);
        rota_image_key key = ROTA_IMAGE_KEY_INIT;
        rota_image_key_add(&key, "source", 6);
        rota_image_cache_write(folder, &key, "image", 5);
        files_only(folder, path, sizeof path);
        assert_string_equal(path + strlen(folder), "/fused-76dbdc228f782db8.cubin"); /* for ever */
        void *image = NULL;
        size_t size = 0;
        const bool changed = make_change(c, path), found = rota_image_cache_read(folder, &key, &image, &size);
        if (changed && found != believed[c]) fail_msg("change %d: found %d", (int)c, found);
        if (found) {
            assert_int_equal(size, 5);
            assert_memory_equal(image, "image", 5);
            free(image);
        }
        files_remove(folder);
    }
}

static void why_a_cache_file_is_refused_is_said(void **state) {
    (void)state;
    char folder[] = FILES_FOLDER, path[128];
    const char *why = "unchanged";
    files_make(folder);
    snprintf(path, sizeof path, "%s/a/b/file", folder);
    assert_null(rota_cache_open(path, &why));
    assert_null(why); /* there is none: nothing to say */
    assert_int_equal(rota_cache_write(path, "abc", 3, "de", 2), 0);
    FILE *file = rota_cache_open(path, &why);
    assert_non_null(file);
    assert_null(why);
    char text[8];
    assert_int_equal(fread(text, 1, sizeof text, file), 5);
    assert_memory_equal(text, "abcde", 5);
    fclose(file);
    assert_int_equal(chmod(path, 0666), 0);
    assert_null(rota_cache_open(path, &why));
    assert_string_equal(why, "others may write it");
    /* Written anew it is the user's own again. */
    assert_int_equal(rota_cache_write(path, "abc", 3, "de", 2), 0);
    file = rota_cache_open(path, &why);
    assert_non_null(file);
    fclose(file);
    files_remove(folder);
}

/* ---- The folder ---- */

typedef struct folder_case {
    const char *given, *xdg, *home, *wanted;
} folder_case;

static void set(const char *name, const char *value) {
    assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

static char *kept(const char *name) {
    const char *value = getenv(name);
    return value ? strdup(value) : NULL;
}

static void relative_variables_count_as_none(void **state) {
    (void)state;
    static const folder_case cases[] = {
        {NULL, "/x", "/h", "/x/rota"},
        {NULL, "x", "/h", "/h/.cache/rota"},
        {NULL, "", "/h", "/h/.cache/rota"},
        {NULL, NULL, "/h", "/h/.cache/rota"},
        {NULL, "./x", "h", NULL},
        {NULL, NULL, NULL, NULL},
        {"", "/x", "/h", NULL},
        {"given", "/x", "/h", "given"},
    };
    char *xdg = kept("XDG_CACHE_HOME"), *home = kept("HOME");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set("XDG_CACHE_HOME", cases[i].xdg);
        set("HOME", cases[i].home);
        char *folder = rota_cache_folder(cases[i].given);
        if (cases[i].wanted)
            assert_string_equal(folder, cases[i].wanted);
        else
            assert_null(folder);
        free(folder);
#ifdef ROTA_HAVE_CUDA
        cuda_stub_start(1, 1);
        test_host host;
        rota_exec_open_options options = test_vk_options(&host, 1);
        options.cache_dir = cases[i].given;
        rota_exec_device *device;
        assert_ok(rota_exec_cuda_driver.open(&rota_exec_cuda_driver, 0, &options, &device));
        if (cases[i].wanted)
            assert_string_equal(device->cuda->cache_dir, cases[i].wanted);
        else
            assert_null(device->cuda->cache_dir);
        uint64_t abandoned;
        device->vtable->close(device, rota_deadline_after(5000000000u), &abandoned);
#endif
    }
    /* A long one is not cut. */
    char longer[3000];
    memset(longer, 'd', sizeof longer - 1);
    longer[0] = '/';
    longer[sizeof longer - 1] = 0;
    set("XDG_CACHE_HOME", longer);
    char *folder = rota_cache_folder(NULL);
    assert_int_equal(strlen(folder), sizeof longer - 1 + strlen("/rota"));
    free(folder);
#ifdef ROTA_HAVE_CUDA
    cuda_stub_start(1, 1);
    test_host host;
    rota_exec_open_options options = test_vk_options(&host, 1);
    options.cache_dir = NULL;
    rota_exec_device *device;
    assert_ok(rota_exec_cuda_driver.open(&rota_exec_cuda_driver, 0, &options, &device));
    assert_int_equal(strlen(device->cuda->cache_dir), sizeof longer - 1 + strlen("/rota"));
    uint64_t abandoned;
    device->vtable->close(device, rota_deadline_after(5000000000u), &abandoned);
#endif
    set("XDG_CACHE_HOME", xdg);
    set("HOME", home);
    free(xdg);
    free(home);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_at_guessable_names_are_left_alone),
        cmocka_unit_test(only_the_file_itself_appears),
        cmocka_unit_test(what_is_no_file_is_written_directly),
        cmocka_unit_test(open_files_are_written_directly),
        cmocka_unit_test(names_that_are_not_utf8_are_written_as_utf8),
        cmocka_unit_test(choices_of_strangers_are_ignored),
        cmocka_unit_test(images_of_strangers_are_ignored),
        cmocka_unit_test(why_a_cache_file_is_refused_is_said),
        cmocka_unit_test(relative_variables_count_as_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
