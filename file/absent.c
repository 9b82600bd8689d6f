/* Graph files where rota is built without libcbor: there are none, and who asks for one is told why. */
#include "base/given.h"
#include "base/sized_copy.h"
#include "file/graph_file.h"

static rota_status no_files(const char *path, const char *what) {
    return rota_fail(
        ROTA_UNSUPPORTED,
        "graph file '%s' can't be %s: this rota was built without libcbor, which reads and writes "
        "graph files; where its development files are (Debian and Ubuntu: libcbor-dev) rota's build "
        "takes it",
        path, what);
}

rota_status rota_graph_save(rota_graph *graph, const rota_graph_save_options *options, const char *path) {
    ROTA_GIVEN(graph);
    ROTA_GIVEN(path);
    rota_graph_save_options room, none = ROTA_GRAPH_SAVE_OPTIONS();
    if (!options) options = &none;
    if (!(options = ROTA_SIZED_IN(rota_graph_save_options, options, &room))) return ROTA_INVALID_ARGUMENT;
    ROTA_GIVEN_ARRAY(options->hosts, options->host_count);
    ROTA_GIVEN_ARRAY(options->first, options->first_count);
    ROTA_GIVEN_ARRAY(options->arguments, options->argument_count);
    ROTA_GIVEN_ARRAY(options->results, options->result_count);
    return no_files(path, "written");
}

rota_status rota_capture(void *user, rota_graph *graph, rota_plan *plan) {
    (void)plan;
    ROTA_GIVEN(user);
    ROTA_GIVEN(graph);
    return no_files(user, "written");
}

rota_status rota_capture_contents(void *user, rota_graph *graph, rota_plan *plan) {
    return rota_capture(user, graph, plan);
}

rota_status rota_graph_file_save_results(rota_graph_file *file, float tolerance, const char *path) {
    (void)tolerance;
    ROTA_GIVEN(file); /* which there is none of */
    ROTA_GIVEN(path);
    return no_files(path, "written");
}

rota_status rota_graph_load(const char *path, const rota_graph_load_options *options,
                            rota_graph_file **out_file) {
    ROTA_GIVEN(path);
    ROTA_GIVEN(out_file);
    *out_file = NULL;
    rota_graph_load_options room, none = ROTA_GRAPH_LOAD_OPTIONS();
    if (!options) options = &none;
    if (!(options = ROTA_SIZED_IN(rota_graph_load_options, options, &room))) return ROTA_INVALID_ARGUMENT;
    ROTA_GIVEN_ARRAY(options->kernels, options->kernel_count);
    ROTA_GIVEN_ARRAY(options->hosts, options->host_count);
    return no_files(path, "read");
}
