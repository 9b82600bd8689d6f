/* What drawing a program is made of: choices, roots, views, steps. */
#ifndef ROTA_TESTS_GRADIENT_DRAW_H
#define ROTA_TESTS_GRADIENT_DRAW_H

#include "tests/random/gradient_program.h"

typedef struct drawing {
    program *p;
    program_source *source;
    double values[PROGRAM_VALUES], before[PROGRAM_VALUES];
    uint64_t sizes[3]; /* most axes are as long as one of these, so that views fit to one another */
    bool windows;      /* views may hold an element several times by other strides than 0 */
    uint32_t segment;  /* the first item that the next call knows */
} drawing;

typedef enum contents { ANY, POSITIVE, DISTINCT, ZERO_OR_ONE, INDEX } contents;

uint32_t draw_below(drawing *d, uint32_t bound);
bool draw_one_in(drawing *d, uint32_t count);

/* A root of zeroes; PROGRAM_NONE if there is no room. */
uint32_t draw_root(drawing *d, rota_dtype dtype, uint32_t count);
/* What it holds from the start. classes: of INDEX. */
void draw_contents(drawing *d, uint32_t root, contents what, uint32_t classes);
/* A view's strides become row-major. */
void draw_dense(program_view *view);
/* Strides and an offset for a view of this shape in a root; false if it is too small. */
bool draw_layout(drawing *d, uint32_t root, uint32_t rank, const uint64_t *shape, bool injective,
                 program_view *out);
uint64_t draw_product(uint32_t rank, const uint64_t *shape);
/* Some view of this shape, of a root that is there or of a new one. */
bool draw_view(drawing *d, rota_dtype dtype, uint32_t rank, const uint64_t *shape, contents what,
               uint32_t classes, program_view *out);

/* An item with operands, whose results have no place yet; false if it came to none. */
bool draw_operands(drawing *d, program_item *out_item);
/* What an item that is no op is called. */
const char *draw_name(program_kind kind);

#endif
