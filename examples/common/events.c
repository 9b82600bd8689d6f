/* Numbers by step, in the files that TensorBoard reads. */
#include "examples/common/events.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "examples/common/checkpoint.h"

#define NAME_MOST 63
#define VALUE_BYTES (NAME_MOST + 16)
#define EVENT_BYTES (EVENT_VALUES_MOST * VALUE_BYTES + 64)

/* A message while it is put together; it has room for all that is put there. */
typedef struct message {
    unsigned char bytes[EVENT_BYTES];
    size_t size;
} message;

/* Field numbers of Event, Summary and Summary.Value, with how each is written: 0 as a varint, 1 as 8 bytes, 2 with its
 * length before it, 5 as 4 bytes. */
enum {
    EVENT_WALL_TIME = 1 << 3 | 1,
    EVENT_STEP = 2 << 3 | 0,
    EVENT_FILE_VERSION = 3 << 3 | 2,
    EVENT_SUMMARY = 5 << 3 | 2,
    SUMMARY_VALUE = 1 << 3 | 2,
    VALUE_TAG = 1 << 3 | 2,
    VALUE_SIMPLE = 2 << 3 | 5
};

static void put(message *m, const void *bytes, size_t size) {
    memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}

static void put_varint(message *m, uint64_t value) {
    do {
        const unsigned char byte = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put(m, &byte, 1);
        value >>= 7;
    } while (value);
}

static void put_little(message *m, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) put(m, &(unsigned char){(unsigned char)(value >> (8 * i))}, 1);
}

static void put_block(message *m, int field, const void *bytes, size_t size) {
    put_varint(m, (uint64_t)field);
    put_varint(m, size);
    put(m, bytes, size);
}

/* CRC-32C (Castagnoli), reflected: 0x1edc6f41 read from the other end. */
static uint32_t checksum(const unsigned char *bytes, size_t size) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    /* Turned and moved, as records have it, so that a record within a record is none by accident. */
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static bool failed(event_file *file, int error) {
    fprintf(stderr, "'%s' can't be written: %s\n", file->path, strerror(error ? error : EIO));
    return false;
}

static bool write_record(event_file *file, const message *event) {
    message frame = {.size = 0};
    errno = 0;
    put_little(&frame, event->size, 8);
    put_little(&frame, checksum(frame.bytes, 8), 4);
    fwrite(frame.bytes, 1, frame.size, file->stream);
    fwrite(event->bytes, 1, event->size, file->stream);
    frame.size = 0;
    put_little(&frame, checksum(event->bytes, event->size), 4);
    fwrite(frame.bytes, 1, frame.size, file->stream);
    if (fflush(file->stream) == 0 && !ferror(file->stream)) {
        file->end = ftell(file->stream);
        return true;
    }
    (void)failed(file, errno);
    /* A part of a record is worse than none. */
    if (file->end >= 0 && ftruncate(fileno(file->stream), file->end) != 0) errno = 0;
    return false;
}

static void begin_event(message *event) {
    struct timespec now = {0};
    uint64_t bits;
    clock_gettime(CLOCK_REALTIME, &now);
    const double seconds = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    memcpy(&bits, &seconds, sizeof bits);
    event->size = 0;
    put_varint(event, EVENT_WALL_TIME);
    put_little(event, bits, 8);
}

bool event_file_open(event_file *file, const char *dir) {
    *file = (event_file){0};
    if (!dir) return true;
    if (!checkpoint_folder(dir)) return false;
    char host[64] = "";
    (void)gethostname(host, sizeof host - 1);
    const size_t room = strlen(dir) + sizeof host + 96;
    file->path = malloc(room);
    if (!file->path) {
        fprintf(stderr, "no memory for the name of a file in '%s'\n", dir);
        return false;
    }
    snprintf(file->path, room, "%s/events.out.tfevents.%lld.%s.%ld.rota", dir, (long long)time(NULL), host,
             (long)getpid());
    file->stream = fopen(file->path, "wbx");
    message event;
    begin_event(&event);
    put_block(&event, EVENT_FILE_VERSION, "brain.Event:2", strlen("brain.Event:2"));
    if (file->stream ? write_record(file, &event) : failed(file, errno)) return true;
    (void)event_file_close(file);
    return false;
}

bool event_file_add(event_file *file, uint64_t step, const event_value *values, size_t count) {
    if (!file->stream) return true;
    message event, summary = {.size = 0};
    for (size_t i = 0; i < count && i < EVENT_VALUES_MOST; i++) {
        if (isnan(values[i].value)) continue;
        message value = {.size = 0};
        const float number = (float)values[i].value;
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        put_block(&value, VALUE_TAG, values[i].name, strnlen(values[i].name, NAME_MOST));
        put_varint(&value, VALUE_SIMPLE);
        put_little(&value, bits, 4);
        put_block(&summary, SUMMARY_VALUE, value.bytes, value.size);
    }
    begin_event(&event);
    put_varint(&event, EVENT_STEP);
    put_varint(&event, step);
    put_block(&event, EVENT_SUMMARY, summary.bytes, summary.size);
    return write_record(file, &event);
}

bool event_file_close(event_file *file) {
    const bool good = !file->stream || fclose(file->stream) == 0 || failed(file, errno);
    free(file->path);
    *file = (event_file){0};
    return good;
}
