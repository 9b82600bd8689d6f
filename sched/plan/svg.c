/* A plan as SVG: a row for each level, and a level of many vertices in several rows, since none of them comes after
 * another. */
#include "sched/plan/svg.h"

#include <stdlib.h>
#include <string.h>
#include "base/utf8.h"
#include "sched/plan/derived.h"
#include "sched/plan/names.h"

#define ROW_VERTICES 12u
#define BOX_WIDTH 150.0
#define BOX_HEIGHT 32.0
#define GAP_ACROSS 14.0
#define GAP_DOWN 40.0 /* between levels; rows of one level have no edges between them */
#define GAP_ROWS 8.0
#define MARGIN 44.0
#define BOW 0.8 /* of a box: how far an edge swings that passes others, which it would be hidden behind */
#define LEGEND_HEIGHT 20.0
#define LEGEND_WIDTH 860.0
#define LETTERS_MAX 23u /* of sans-serif of 11 pixels, in a box */

typedef struct vertex_key {
    double key;
    uint32_t vertex;
} vertex_key;

typedef struct layout {
    const rota_drawing *d;
    uint32_t level_count, shown_count;
    uint32_t *level; /* of a vertex */
    uint32_t *first; /* of a level, in `shown`; level_count + 1 */
    uint32_t *shown; /* vertices by level, in the order in which they stand in it */
    vertex_key *keys;
    uint64_t *first_edge; /* of a vertex: the first edge into it */
    uint32_t *edges_in;
    double *x,
        *y; /* of a vertex: the middle of its upper side; while they are ordered x is 0 to 1 across its level */
    double *sums;     /* of a vertex: x of those after it, added up, */
    uint32_t *summed; /* and how many they are */
    double width, height;
} layout;

static void *zeroed(rota_arena *arena, uint64_t count, size_t bytes, bool *good) {
    void *memory = rota_arena_calloc(arena, (size_t)(count + 1) * bytes, 8);
    if (!memory) *good = false;
    return memory;
}

/* Edges into a vertex stand behind those into all that it comes after: one look at each is enough. */
static void find_levels(layout *l) {
    const rota_drawing *d = l->d;
    for (uint64_t e = 0; e < d->edge_count; e++) {
        const uint32_t to = d->edges[e].to, least = l->level[d->edges[e].from] + 1;
        if (l->level[to] < least) l->level[to] = least;
        if (l->edges_in[to]++ == 0) l->first_edge[to] = e;
    }
    for (uint32_t v = 0; v < d->vertex_count; v++) {
        if (!rota_drawing_shows(d, v)) continue;
        l->shown_count++;
        if (l->level[v] >= l->level_count) l->level_count = l->level[v] + 1;
    }
}

static void sort_by_level(layout *l) {
    const rota_drawing *d = l->d;
    for (uint32_t v = 0; v < d->vertex_count; v++)
        if (rota_drawing_shows(d, v)) l->first[l->level[v]]++;
    uint32_t end = 0;
    for (uint32_t i = 0; i < l->level_count; i++) l->first[i] = end += l->first[i];
    l->first[l->level_count] = end;
    /* From the last on, so that each level's end becomes its beginning. */
    for (uint32_t v = d->vertex_count; v-- > 0;)
        if (rota_drawing_shows(d, v)) l->shown[--l->first[l->level[v]]] = v;
}

static int compare_keys(const void *a, const void *b) {
    const vertex_key *one = a, *other = b;
    if (one->key != other->key) return one->key < other->key ? -1 : 1;
    return one->vertex < other->vertex ? -1 : one->vertex > other->vertex;
}

/* Where the neighbours in the levels before, or after, would have a vertex. */
static double wanted_x(const layout *l, uint32_t v, bool down) {
    if (!down) return l->summed[v] ? l->sums[v] / l->summed[v] : l->x[v];
    double sum = 0;
    for (uint32_t i = 0; i < l->edges_in[v]; i++) sum += l->x[l->d->edges[l->first_edge[v] + i].from];
    return l->edges_in[v] ? sum / l->edges_in[v] : l->x[v];
}

static void order_level(layout *l, uint32_t level, bool down) {
    const uint32_t first = l->first[level], count = l->first[level + 1] - first;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t v = l->shown[first + i];
        l->keys[i] = (vertex_key){wanted_x(l, v, down), v};
    }
    qsort(l->keys, count, sizeof *l->keys, compare_keys);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t v = l->keys[i].vertex;
        l->shown[first + i] = v;
        l->x[v] = (i + 0.5) / count;
        for (uint32_t k = 0; k < l->edges_in[v] && !down; k++) {
            const uint32_t from = l->d->edges[l->first_edge[v] + k].from;
            l->sums[from] += l->x[v];
            l->summed[from]++;
        }
    }
}

/* Down, up and down again: the neighbours' mean brings most of what belongs together below one another. */
static void order(layout *l) {
    for (uint32_t i = 0; i < l->level_count; i++) order_level(l, i, true);
    for (uint32_t i = l->level_count; i-- > 0;) order_level(l, i, false);
    for (uint32_t i = 0; i < l->level_count; i++) order_level(l, i, true);
}

static void give_positions(layout *l) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < l->level_count; i++) {
        const uint32_t count = l->first[i + 1] - l->first[i];
        if (count > most) most = count;
    }
    if (most > ROW_VERTICES) most = ROW_VERTICES;
    l->width = 2 * MARGIN + most * (BOX_WIDTH + GAP_ACROSS) - GAP_ACROSS;
    if (l->width < LEGEND_WIDTH) l->width = LEGEND_WIDTH;
    double y = MARGIN + LEGEND_HEIGHT;
    for (uint32_t i = 0; i < l->level_count; i++) {
        for (uint32_t k = l->first[i]; k < l->first[i + 1]; k += ROW_VERTICES) {
            uint32_t count = l->first[i + 1] - k;
            if (count > ROW_VERTICES) count = ROW_VERTICES;
            const double left = (l->width - count * (BOX_WIDTH + GAP_ACROSS) + GAP_ACROSS + BOX_WIDTH) / 2;
            for (uint32_t c = 0; c < count; c++) {
                l->x[l->shown[k + c]] = left + c * (BOX_WIDTH + GAP_ACROSS);
                l->y[l->shown[k + c]] = y;
            }
            y += BOX_HEIGHT + GAP_ROWS;
        }
        y += GAP_DOWN - GAP_ROWS;
    }
    l->height = y + MARGIN - GAP_DOWN;
}

static rota_status lay_out(layout *l, rota_arena *arena) {
    const rota_drawing *d = l->d;
    const uint64_t count = d->vertex_count;
    bool good = true;
    l->level = zeroed(arena, count, sizeof *l->level, &good);
    l->first_edge = zeroed(arena, count, sizeof *l->first_edge, &good);
    l->edges_in = zeroed(arena, count, sizeof *l->edges_in, &good);
    l->x = zeroed(arena, count, sizeof *l->x, &good);
    l->y = zeroed(arena, count, sizeof *l->y, &good);
    l->sums = zeroed(arena, count, sizeof *l->sums, &good);
    l->summed = zeroed(arena, count, sizeof *l->summed, &good);
    l->shown = zeroed(arena, count, sizeof *l->shown, &good);
    l->keys = zeroed(arena, count, sizeof *l->keys, &good);
    if (good) find_levels(l);
    l->first = zeroed(arena, l->level_count, sizeof *l->first, &good);
    if (!good) return rota_fail(ROTA_OUT_OF_MEMORY, "picture of plan '%s': no host memory", d->plan->name);
    sort_by_level(l);
    order(l);
    give_positions(l);
    return ROTA_OK;
}

/* ---- Writing ---- */

/* XML has neither most control characters nor U+FFFE and U+FFFF. `length` 0: it is no UTF-8. */
static bool is_xml(const unsigned char *next, size_t length) {
    if (length == 0 || (*next < 0x20 && *next != '\t' && *next != '\n' && *next != '\r')) return false;
    return length != 3 || next[0] != 0xEF || next[1] != 0xBF || next[2] < 0xBE;
}

/* Text as XML has it, of at most `letters`, the last of which is then an ellipsis. */
static void write_text(FILE *file, const char *text, size_t bytes, uint32_t letters) {
    const unsigned char *next = (const unsigned char *)text;
    for (uint32_t i = 0; bytes; i++) {
        const size_t length = rota_utf8_length(next, bytes);
        if (i + 1 >= letters && bytes > (length ? length : 1)) {
            fputs("\xE2\x80\xA6", file);
            return;
        }
        if (*next == '<' || *next == '>' || *next == '&' || *next == '"')
            fprintf(file, "&#%u;", *next);
        else if (!is_xml(next, length))
            fputs(ROTA_UTF8_REPLACEMENT, file);
        else
            fwrite(next, 1, length, file);
        next += length ? length : 1;
        bytes -= length ? length : 1;
    }
}

static void write_legend(FILE *file, const layout *l) {
    fprintf(file, "<text x=\"%.0f\" y=\"26\" font-weight=\"bold\">", MARGIN);
    write_text(file, l->d->plan->name, strlen(l->d->plan->name), 60);
    fprintf(file, "</text><text x=\"%.0f\" y=\"26\">%s</text>\n", MARGIN + 400,
            l->d->collapsed ? "box: nodes in a row whose names begin alike"
                            : "same colour in a row: names begin alike");
    for (uint32_t kind = 0; kind < ROTA_EDGE_KIND_COUNT; kind++) {
        const rota_edge_look *look = &rota_edge_looks[kind];
        const double x = MARGIN + kind * 160.0;
        fprintf(
            file,
            "<path d=\"M%.0f 40h22\" stroke=\"%s\"%s/><text x=\"%.0f\" y=\"44\" font-size=\"9\">%s</text>\n",
            x, look->color, look->dashed ? " stroke-dasharray=\"4 3\"" : "", x + 26, look->meaning);
    }
}

static void write_edges(FILE *file, const layout *l) {
    for (uint64_t e = 0; e < l->d->edge_count; e++) {
        const rota_drawn_edge *edge = &l->d->edges[e];
        const rota_edge_look *look = &rota_edge_looks[rota_drawn_edge_kind(edge)];
        const double x = l->x[edge->from],
                     y = l->y[edge->from] + (edge->from < l->d->body_count ? BOX_HEIGHT : 0);
        const double to_x = l->x[edge->to], to_y = l->y[edge->to], bend = (to_y - y) / 3;
        const bool passes =
            l->level[edge->to] > l->level[edge->from] + 1 && x < to_x + BOX_WIDTH && to_x < x + BOX_WIDTH;
        const double bow = passes ? BOW * BOX_WIDTH : 0;
        uint64_t count = 0;
        for (uint32_t kind = 0; kind < ROTA_EDGE_KIND_COUNT; kind++) count += edge->counts[kind];
        char label[128];
        rota_drawn_edge_label(edge, label, sizeof label);
        fprintf(file,
                "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" "
                "stroke=\"%s\"%s%s><title>%s</title></path>\n",
                x, y, x + bow, y + bend, to_x + bow, to_y - bend, to_x, to_y, look->color,
                look->dashed ? " stroke-dasharray=\"4 3\"" : "", count > 1 ? " stroke-width=\"2\"" : "",
                label);
    }
}

static void write_box(FILE *file, const layout *l, uint32_t v, const char *fill, bool dashed) {
    fprintf(file,
            "<g><rect x=\"%.1f\" y=\"%.1f\" width=\"%.0f\" height=\"%.0f\" rx=\"3\" stroke=\"#888\" "
            "fill=\"%s\"%s/>",
            l->x[v] - BOX_WIDTH / 2, l->y[v], BOX_WIDTH, BOX_HEIGHT, fill,
            dashed ? " stroke-dasharray=\"4 3\"" : "");
}

static void write_operation(FILE *file, const layout *l, uint32_t v, uint32_t n) {
    const rota_plan *plan = l->d->plan;
    const rota_operation *operation = &rota_plan_info(plan)->operations[n];
    const char *name = rota_operation_name(plan, n), *kind = rota_drawn_kind(operation);
    write_box(file, l, v, rota_section_color(l->d->sections.of_operation[n]),
              operation->kind != ROTA_OPERATION_NODE);
    fputs("<title>", file);
    write_text(file, name, strlen(name), UINT32_MAX);
    fprintf(file, " #%u, device %u, queue %u, segment %u, batch %u", n, operation->part, operation->queue,
            rota_operation_segment(plan, operation), rota_operation_batch(plan, operation));
    char count[256];
    if (rota_operation_count_text(plan, n, count, sizeof count)) {
        fputs(", ", file);
        write_text(file, count, strlen(count), UINT32_MAX);
    }
    fputs("</title>", file);
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\">", l->x[v], l->y[v] + 13);
    write_text(file, name, strlen(name), LETTERS_MAX);
    fprintf(file, "</text><text x=\"%.1f\" y=\"%.1f\" font-size=\"9\">", l->x[v], l->y[v] + 26);
    write_text(file, kind, strlen(kind), LETTERS_MAX);
    fprintf(file, " #%u</text></g>\n", n);
}

static void write_section(FILE *file, const layout *l, uint32_t v) {
    const rota_section *section = &l->d->sections.list[v];
    write_box(file, l, v, rota_section_color(v), false);
    fputs("<title>", file);
    write_text(file, section->name, section->name_bytes, UINT32_MAX);
    fprintf(file, ": %u operations, #%u to #%u</title>", section->count, section->first,
            section->first + section->count - 1);
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\">", l->x[v], l->y[v] + 13);
    write_text(file, section->name, section->name_bytes, LETTERS_MAX);
    fprintf(file, "</text><text x=\"%.1f\" y=\"%.1f\" font-size=\"9\">%u operations</text></g>\n", l->x[v],
            l->y[v] + 26, section->count);
}

static void write_vertices(FILE *file, const layout *l) {
    for (uint32_t i = 0; i < l->shown_count; i++) {
        const uint32_t v = l->shown[i];
        if (v >= l->d->body_count)
            fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"black\"/>\n", l->x[v], l->y[v]);
        else if (!l->d->collapsed)
            write_operation(file, l, v, v);
        else if (l->d->sections.list[v].count > 1)
            write_section(file, l, v);
        else
            write_operation(file, l, v, l->d->sections.list[v].first);
    }
}

rota_status rota_svg_write(FILE *file, const rota_drawing *drawing) {
    layout l = {.d = drawing};
    rota_arena arena = ROTA_ARENA_INIT;
    rota_status status = lay_out(&l, &arena);
    if (status == ROTA_OK) {
        fprintf(file,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
                "%.0f\" "
                "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"%.0f\" height=\"%.0f\" "
                "fill=\"white\"/>\n"
                "<g fill=\"none\" stroke-opacity=\"0.6\">\n",
                l.width, l.height, l.width, l.height, l.width, l.height);
        write_edges(file, &l);
        fputs("</g>\n<g text-anchor=\"middle\" stroke-width=\"1\">\n<g>\n", file);
        write_vertices(file, &l);
        fputs("</g>\n</g>\n", file);
        write_legend(file, &l);
        fputs("</svg>\n", file);
    }
    rota_arena_free(&arena);
    return status;
}
