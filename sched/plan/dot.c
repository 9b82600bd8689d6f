/* A plan in Graphviz's language. */
#include "sched/plan/dot.h"

#include <string.h>
#include "base/output.h"
#include "sched/plan/derived.h"
#include "sched/plan/names.h"

static void write_legend(FILE *file, const rota_drawing *d) {
    fputs("  legend [shape=none, label=<<table border=\"1\" cellborder=\"0\" cellspacing=\"2\">\n", file);
    for (uint32_t kind = 0; kind < ROTA_EDGE_KIND_COUNT; kind++) {
        const rota_edge_look *look = &rota_edge_looks[kind];
        fprintf(file,
                "    <tr><td align=\"left\"><font color=\"%s\">%s %s</font></td><td "
                "align=\"left\">%s</td></tr>\n",
                look->color, look->dashed ? "- - -" : "-----", rota_edge_name((rota_edge_kind)kind),
                look->meaning);
    }
    fprintf(file,
            "    <tr><td align=\"left\">%s</td><td align=\"left\">%s</td></tr>\n"
            "    <tr><td align=\"left\">dashed box</td><td align=\"left\">a copy that rota added</td></tr>\n"
            "    <tr><td align=\"left\">point</td><td align=\"left\">all before it, before all after "
            "it</td></tr>\n  </table>>];\n",
            d->collapsed ? "box" : "coloured field",
            d->collapsed ? "nodes in a row whose names begin alike" : "names begin alike, in a row");
}

static void write_operation(FILE *file, const rota_plan *plan, uint32_t n) {
    const rota_operation *operation = &rota_plan_info(plan)->operations[n];
    const char *name = rota_operation_name(plan, n), *kind = rota_drawn_kind(operation);
    fprintf(file, "    n%u [label=\"", n);
    rota_output_escape(file, name);
    if (*kind && strcmp(kind, name) != 0) {
        fputs("\\n", file);
        rota_output_escape(file, kind);
    }
    char count[256];
    if (rota_operation_count_text(plan, n, count, sizeof count)) {
        fputs("\\n", file);
        rota_output_escape(file, count);
    }
    fprintf(file, "\\n#%u", n);
    if (plan->partition_count > 1) fprintf(file, ", device %u", operation->part);
    if (plan->stats.queues > 1) fprintf(file, ", queue %u", operation->queue);
    if (plan->segment_count > 1) fprintf(file, ", segment %u", rota_operation_segment(plan, operation));
    fprintf(file, ", batch %u\"%s];\n", rota_operation_batch(plan, operation),
            operation->kind == ROTA_OPERATION_NODE ? "" : ", style=\"filled,dashed\"");
}

static void write_section_name(FILE *file, const rota_section *section) {
    char name[96];
    const size_t length = section->name_bytes < sizeof name ? section->name_bytes : sizeof name - 1;
    memcpy(name, section->name, length);
    name[length] = 0;
    rota_output_escape(file, name);
}

static void write_sections(FILE *file, const rota_drawing *d) {
    for (uint32_t s = 0; s < d->sections.count; s++) {
        const rota_section *section = &d->sections.list[s];
        if (d->collapsed && section->count > 1) {
            fprintf(file, "  s%u [fillcolor=\"%s\", label=\"", s, rota_section_color(s));
            write_section_name(file, section);
            fprintf(file, "\\n%u operations, #%u to #%u\"];\n", section->count, section->first,
                    section->first + section->count - 1);
            continue;
        }
        if (section->count > 1) {
            fprintf(file, "  subgraph cluster_%u {\n    style=filled;\n    color=\"%s\";\n    label=\"", s,
                    rota_section_color(s));
            write_section_name(file, section);
            fputs("\";\n", file);
        }
        for (uint32_t n = section->first; n < section->first + section->count; n++)
            write_operation(file, d->plan, n);
        if (section->count > 1) fputs("  }\n", file);
    }
}

/* "n3", "s3" of a section with several operations, "j3" of a join. */
static void write_vertex(FILE *file, const rota_drawing *d, uint32_t vertex) {
    if (vertex >= d->body_count)
        fprintf(file, "j%u", vertex - d->body_count);
    else if (!d->collapsed)
        fprintf(file, "n%u", vertex);
    else if (d->sections.list[vertex].count > 1)
        fprintf(file, "s%u", vertex);
    else
        fprintf(file, "n%u", d->sections.list[vertex].first);
}

static void write_edges(FILE *file, const rota_drawing *d) {
    for (uint64_t e = 0; e < d->edge_count; e++) {
        const rota_drawn_edge *edge = &d->edges[e];
        const rota_edge_look *look = &rota_edge_looks[rota_drawn_edge_kind(edge)];
        char label[128];
        rota_drawn_edge_label(edge, label, sizeof label);
        fputs("  ", file);
        write_vertex(file, d, edge->from);
        fputs(" -> ", file);
        write_vertex(file, d, edge->to);
        fprintf(file, " [label=\"%s\", color=%s%s];\n", label, look->color,
                look->dashed ? ", style=dashed" : "");
    }
}

void rota_dot_write(FILE *file, const rota_drawing *d) {
    fputs("digraph \"", file);
    rota_output_escape(file, d->plan->name);
    fputs("\" {\n  rankdir=TB;\n"
          "  node [shape=box, style=filled, fillcolor=white, fontname=\"sans-serif\", fontsize=10];\n"
          "  edge [fontname=\"sans-serif\", fontsize=8];\n",
          file);
    write_legend(file, d);
    write_sections(file, d);
    for (uint32_t v = d->body_count; v < d->vertex_count; v++)
        if (rota_drawing_shows(d, v)) fprintf(file, "  j%u [shape=point];\n", v - d->body_count);
    write_edges(file, d);
    for (uint32_t i = 0; i < d->plan->segment_count; i++)
        for (uint32_t k = 0; k < d->plan->segments[i].wait_count; k++)
            fprintf(file, "  // segment %u waits for segment %u\n", i,
                    d->plan->segment_waits[d->plan->segments[i].first_wait + k]);
    fputs("}\n", file);
}
