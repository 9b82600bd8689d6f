/* True reachability of compiled plans, on random graphs that no device runs: every pair of conflicting accesses is
 * ordered, and the checker that says so notices when an edge, a barrier or a wait is taken away. */
#include "tests/kit/support.h"

#include "sched/plan/compiled.h"
#include "tests/random/mirror.h"
#include "tests/random/reach.h"

static void compile_case(mirror_case *mirror, uint64_t seed, uint32_t nodes) {
    mirror_limits limits = {.nodes = nodes, .bytes = 4096, .granule = 4, .queues = 5, .devices = 1, .host_nodes = true};
    uint64_t random = seed;
    mirror_generate(mirror, seed, &limits);
    for (uint32_t p = 0; p < mirror->persistent_count; p++)
        assert_ok(rota_buffer_create("p", mirror->persistents[p].bytes, &mirror->persistents[p].handle));
    for (uint32_t g = 0; g < mirror->graph_count; g++) {
        assert_ok(mirror_record(mirror, &mirror->graphs[g], &random));
        assert_ok(mirror_compile(&mirror->graphs[g], NULL, NULL, 0));
    }
}

static void free_case(mirror_case *mirror) {
    for (uint32_t g = 0; g < mirror->graph_count; g++) mirror_release(&mirror->graphs[g]);
    for (uint32_t p = 0; p < mirror->persistent_count; p++) rota_buffer_release(mirror->persistents[p].handle);
    mirror_free(mirror);
}

static void conflicting_accesses_are_ordered(void **state) {
    (void)state;
    char message[384];
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        mirror_case mirror;
        compile_case(&mirror, seed, 500);
        for (uint32_t g = 0; g < mirror.graph_count; g++)
            for (reach_mode mode = REACH_BATCHES; mode <= REACH_EDGES; mode++)
                if (!reach_check(mirror.graphs[g].plan, mode, NULL, message, sizeof message))
                    fail_msg("seed %llu, graph %u: %s", (unsigned long long)seed, g, message);
        free_case(&mirror);
    }
}

/* Kept edges are a transitive reduction, batches stand as early as they can, and waits that a vector clock proves
 * implied are dropped: so nearly every one that is taken away must be missed. rota_node_after orders nodes that share
 * nothing, and a forgotten clock entry may keep an edge that is implied: those may go unnoticed. */
static void the_checker_notices(void **state) {
    (void)state;
    char message[384];
    uint64_t taken[3] = {0}, noticed[3] = {0};
    for (uint64_t seed = 1; seed <= 400; seed++) {
        mirror_case mirror;
        compile_case(&mirror, seed, 120);
        for (uint32_t g = 0; g < mirror.graph_count; g++) {
            const rota_plan *plan = mirror.graphs[g].plan;
            reach_breaks counts = reach_counts(plan);
            for (uint32_t i = 1; i <= counts.edge; i++, taken[0]++)
                noticed[0] += !reach_check(plan, REACH_EDGES, &(reach_breaks){.edge = i}, message, sizeof message);
            for (uint32_t i = 1; i <= counts.barrier; i++, taken[1]++)
                noticed[1] += !reach_check(plan, REACH_BATCHES, &(reach_breaks){.barrier = i}, message, sizeof message);
            for (uint32_t i = 1; i <= counts.wait; i++, taken[2]++)
                noticed[2] += !reach_check(plan, REACH_BATCHES, &(reach_breaks){.wait = i}, message, sizeof message);
        }
        free_case(&mirror);
    }
    static const char *const what[] = {"edges", "barriers", "waits"};
    static const double least[] = {0.9, 0.9, 0.6};
    for (uint32_t k = 0; k < 3; k++) {
        print_message("%llu of %llu %s taken away were noticed\n", (unsigned long long)noticed[k],
                      (unsigned long long)taken[k], what[k]);
        assert_true(taken[k] > 100);
        assert_true((double)noticed[k] >= least[k] * (double)taken[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conflicting_accesses_are_ordered),
        cmocka_unit_test(the_checker_notices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
