/* A plan in Graphviz's language. */
#include "base/output.h"
#include "base/given.h"
#include "sched/plan/names.h"
#include "sched/plan/operations.h"

static void write_dot_nodes(FILE *file, const rota_plan *plan) {
    const rota_compile_info *info = rota_plan_info(plan);
    uint32_t segment = ROTA_NONE;
    for (uint32_t part = 0; part < plan->partition_count; part++)
        for (uint32_t i = 0; i < plan->partitions[part].desc.command_count; i++) {
            uint32_t n = plan->partitions[part].desc.commands[i].node;
            const rota_operation *operation = &info->operations[n];
            if (operation->segment != segment) {
                if (segment != ROTA_NONE) fputs("  }\n", file);
                segment = operation->segment;
                fprintf(file, "  subgraph cluster_%u {\n    label=\"segment %u, device %u, queue %u\";\n",
                        segment, segment, operation->part, operation->queue);
            }
            fprintf(file, "    n%u [label=\"", n);
            rota_output_escape(file, rota_operation_name(plan, n));
            fprintf(file, "\\n#%u, batch %u\"%s];\n", n, operation->level,
                    operation->kind == ROTA_OPERATION_NODE ? "" : ", style=dashed");
        }
    if (segment != ROTA_NONE) fputs("  }\n", file);
}

rota_status rota_plan_write_dot(const rota_plan *plan, const char *path) {
    ROTA_GIVEN(plan);
    ROTA_GIVEN(path);
    static const char *const styles[ROTA_EDGE_KIND_COUNT] = {
        "color=black", "color=blue", "color=red", "color=orange, style=dashed", "color=gray, style=dotted"};
    const rota_compile_info *info = rota_plan_info(plan);
    rota_output output;
    ROTA_TRY(rota_output_open(&output, path));
    fputs("digraph \"", output.file);
    rota_output_escape(output.file, plan->name);
    fputs("\" {\n  rankdir=TB;\n  node [shape=box, fontname=\"sans-serif\", fontsize=10];\n"
          "  edge [fontname=\"sans-serif\", fontsize=8];\n",
          output.file);
    write_dot_nodes(output.file, plan);
    for (uint32_t n = 0; n < info->operation_count; n++)
        for (uint32_t e = info->first_edge[n]; e < info->first_edge[n + 1]; e++)
            fprintf(output.file, "  %c%u -> n%u [label=\"%s\", %s];\n",
                    info->edge_from[e] & ROTA_JOIN ? 'j' : 'n', info->edge_from[e] & ~ROTA_JOIN, n,
                    rota_edge_name(info->edge_kind[e]), styles[info->edge_kind[e]]);
    for (uint32_t j = 0; j < info->join_count; j++) {
        const rota_join *join = &info->joins[j];
        fprintf(output.file, "  j%u [shape=point];\n", j);
        for (uint32_t i = 0; i < join->count; i++)
            fprintf(output.file, "  %c%u -> j%u [%s];\n",
                    info->join_from[join->first_from + i] & ROTA_JOIN ? 'j' : 'n',
                    info->join_from[join->first_from + i] & ~ROTA_JOIN, j, styles[join->kind]);
    }
    for (uint32_t i = 0; i < plan->segment_count; i++)
        for (uint32_t k = 0; k < plan->segments[i].wait_count; k++)
            fprintf(output.file, "  // segment %u waits for segment %u\n", i,
                    plan->segment_waits[plan->segments[i].first_wait + k]);
    fputs("}\n", output.file);
    return rota_output_close(&output, ROTA_OK);
}
