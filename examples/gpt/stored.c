/* What a checkpoint says of the run that made it. */
#include "examples/gpt/stored.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "examples/common/checkpoint.h"
#include "examples/gpt/checkpoint_files.h"
#include "examples/gpt/checkpoint.h"
#include "examples/common/utf8.h"

static const char *const tokenizer_names[] = {"char", "byte", "bpe", "bin"};
#define TOKENIZERS ((int)(sizeof tokenizer_names / sizeof *tokenizer_names))

/* ---- Writing ---- */

/* JSON is UTF-8, which names of files and of tokens need not be. */
static bool is_utf8(const char *text) {
    const size_t size = strlen(text);
    for (size_t offset = 0, length; offset < size; offset += length)
        if (utf8_decode((const unsigned char *)text + offset, size - offset, &length) >= UTF8_RAW_BYTE)
            return false;
    return true;
}

/* The code points of characters, as numbers: not all of them are characters of JSON. From malloc. */
static char *print_codes(const gpt_vocabulary *vocabulary) {
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    for (uint32_t i = 0; stream && i < vocabulary->count; i++)
        fprintf(stream, "%s%" PRIu32, i ? " " : "", vocabulary->codes[i]);
    if (stream && fclose(stream) == 0) return text;
    fprintf(stderr, "no memory for the numbers of %" PRIu32 " characters\n", vocabulary->count);
    free(text);
    return NULL;
}

/* Takes the text. */
static bool add_text(cJSON *metadata, const char *name, char *text) {
    const bool good = text && cJSON_AddStringToObject(metadata, name, text);
    free(text);
    return good;
}

/* Where a file is for whoever goes on in another folder. */
static void add_file(cJSON *metadata, const char *name, const char *path) {
    char *whole = path ? realpath(path, NULL) : NULL;
    if (whole && is_utf8(whole)) cJSON_AddStringToObject(metadata, name, whole);
    free(whole);
}

bool gpt_stored_add(cJSON *metadata, const gpt_vocabulary *vocabulary, uint64_t asked, const char *data,
                    const char *val_data) {
    const gpt_bpe *bpe = &vocabulary->bpe;
    if (asked) safetensors_add_number(metadata, "asked", asked);
    add_file(metadata, "data", data);
    add_file(metadata, "val_data", val_data);
    if (vocabulary->kind == GPT_CHAR && !add_text(metadata, "characters", print_codes(vocabulary)))
        return false;
    if (bpe->count && !add_text(metadata, "merges", gpt_bpe_print_merges(bpe))) return false;
    if (bpe->count && bpe->token_of) {
        char *numbers = gpt_bpe_print_numbers(bpe);
        /* Without the numbers the merges say something else: then the tokenizer is not named, either. */
        if (numbers && !is_utf8(numbers)) {
            free(numbers);
            return true;
        }
        if (!add_text(metadata, "token_numbers", numbers)) return false;
    }
    return cJSON_AddStringToObject(metadata, "tokenizer", tokenizer_names[vocabulary->kind]) != NULL;
}

/* ---- Reading ---- */

static const char *text_of(const gpt_stored *stored, const char *name) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(stored->file.metadata, name));
}

bool gpt_stored_read(const char *from, gpt_stored *out) {
    gpt_checkpoint_files files;
    *out = (gpt_stored){.tokenizer = -1};
    if (!gpt_checkpoint_files_find(from, &files)) return false;
    out->path = files.paths[0]; /* each has all of the metadata */
    files.paths[0] = NULL;
    gpt_checkpoint_files_free(&files);
    const struct {
        const char *name;
        uint64_t *value, least, most;
    } numbers[] = {{"block", &out->block, 1, 1 << 20},
                   {"layers", &out->layers, 1, 1024},
                   {"heads", &out->heads, 1, 1 << 20},
                   {"dim", &out->dim, 1, 1 << 20},
                   {"arch", &out->arch, GPT_PLAIN, GPT_2},
                   {"seed", &out->seed, 0, UINT64_MAX},
                   {"vocabulary", &out->vocabulary, 1, UTF8_RAW_BYTE + 256}};
    bool good = safetensors_read_metadata(out->path, &out->file);
    for (size_t i = 0; good && i < sizeof numbers / sizeof *numbers; i++) {
        good = checkpoint_read_number(out->file.metadata, out->path, "train_gpt", numbers[i].name,
                                      numbers[i].value);
        if (!good || (*numbers[i].value >= numbers[i].least && *numbers[i].value <= numbers[i].most))
            continue;
        fprintf(stderr, "'%s' is damaged: it says %s %" PRIu64 "\n", out->path, numbers[i].name,
                *numbers[i].value);
        good = false;
    }
    if (!good) {
        gpt_stored_free(out);
        return false;
    }
    const char *tokenizer = text_of(out, "tokenizer");
    for (int i = 0; tokenizer && i < TOKENIZERS; i++)
        if (strcmp(tokenizer, tokenizer_names[i]) == 0) out->tokenizer = i;
    if (!safetensors_read_number(out->file.metadata, "asked", &out->asked) || out->asked > GPT_BPE_MOST)
        out->asked = 0;
    out->data = text_of(out, "data");
    out->val_data = text_of(out, "val_data");
    return true;
}

void gpt_stored_free(gpt_stored *stored) {
    safetensors_free(&stored->file);
    free(stored->path);
    *stored = (gpt_stored){.tokenizer = -1};
}

/* Ascending code points, as many as the vocabulary has. */
static bool read_codes(const gpt_stored *stored, gpt_vocabulary *out) {
    const char *text = text_of(stored, "characters");
    const size_t room = text ? strlen(text) / 2 + 1 : 0; /* of one digit each, at most */
    out->codes = malloc((room + 1) * sizeof *out->codes);
    if (!out->codes) {
        fprintf(stderr, "no memory for the characters of '%s'\n", stored->path);
        return false;
    }
    while (text && *text >= '0' && *text <= '9') {
        char *end;
        const unsigned long code = strtoul(text, &end, 10);
        if (code >= UTF8_RAW_BYTE + 256 || (out->count && code <= out->codes[out->count - 1])) break;
        out->codes[out->count++] = (uint32_t)code;
        text = *end == ' ' ? end + 1 : end;
    }
    if (text && !*text && out->count == stored->vocabulary) return true;
    fprintf(stderr, "'%s' is damaged: its %" PRIu64 " characters make no sense from the %" PRIu32 "th on\n",
            stored->path, stored->vocabulary, out->count);
    return false;
}

bool gpt_stored_vocabulary(const gpt_stored *stored, gpt_vocabulary *out) {
    *out = (gpt_vocabulary){.kind = (gpt_tokenizer)stored->tokenizer};
    bool good = true;
    const char *merges = text_of(stored, "merges");
    if (out->kind == GPT_CHAR) good = read_codes(stored, out);
    if (out->kind == GPT_BYTE) good = gpt_vocabulary_bytes(out);
    if (out->kind == GPT_BPE && !merges) {
        fprintf(stderr, "'%s' is damaged: it has no merges\n", stored->path);
        good = false;
    }
    if (out->kind >= GPT_BPE && merges) {
        good = gpt_bpe_read(stored->path, merges, text_of(stored, "token_numbers"), &out->bpe);
        out->count = out->bpe.count;
    }
    if (!good) gpt_vocabulary_free(out);
    return good;
}
