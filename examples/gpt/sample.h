/* Writing with a GPT: what follows a prompt, token after token. */
#ifndef ROTA_EXAMPLES_GPT_SAMPLE_H
#define ROTA_EXAMPLES_GPT_SAMPLE_H

#include "examples/gpt/loop.h"

/* How it went. */
typedef struct gpt_written {
    uint64_t tokens;
    double seconds; /* from the prompt's first token on */
    bool on_device; /* the loop over tokens; else the host chose each */
} gpt_written;

/* Gives the tokens that follow the prompt to writing->write, up to one that ends the text: wholly on a device that runs
 * nodes that decide, on others, or where host_loop is set, with a submission a token. The same tokens either way. */
rota_status gpt_write_tokens(gpt_model *model, const gpt_sampling *sampling, const gpt_writing *writing,
                             bool host_loop, gpt_written *out);
/* The same, printed; writing->write is not used. */
rota_status gpt_write(gpt_model *model, const gpt_vocabulary *vocabulary, const gpt_sampling *sampling,
                      const gpt_writing *writing, bool host_loop, gpt_written *out);

#endif
