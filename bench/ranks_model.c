/* Times of collectives and steps from a latency and a bandwidth. */
#include "bench/ranks_model.h"

#include <math.h>

/* Latencies one after the other. */
static double messages_of(ranks_algorithm algorithm, uint32_t ranks) {
    const double others = (double)ranks - 1;
    if (algorithm == RANKS_EXCHANGE) return 3 * others;
    return algorithm == RANKS_RING ? 2 * others : 2 * ceil(log2((double)ranks));
}

/* Bytes that a rank sends for each of the operand's. */
static double sent_share(uint32_t ranks) {
    return 2 * ((double)ranks - 1) / (double)ranks;
}

/* seconds = a + b * bytes, where each error counts in parts of the seconds: weights of 1 / seconds^2. */
ranks_model ranks_model_fit(ranks_algorithm algorithm, uint32_t ranks, const double *bytes,
                            const double *seconds, size_t count) {
    double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
    for (size_t i = 0; i < count; i++) {
        const double weight = 1 / (seconds[i] * seconds[i]);
        w += weight;
        wx += weight * bytes[i];
        wy += weight * seconds[i];
        wxx += weight * bytes[i] * bytes[i];
        wxy += weight * bytes[i] * seconds[i];
    }
    const double across = w * wxx - wx * wx;
    const double per_byte = (w * wxy - wx * wy) / across, alone = (wy - per_byte * wx) / w;
    return (ranks_model){.algorithm = algorithm,
                         .latency_s = alone > 0 ? alone / messages_of(algorithm, ranks) : 0,
                         .bytes_per_s = per_byte > 0 ? sent_share(ranks) / per_byte : INFINITY};
}

double ranks_model_all_reduce(const ranks_model *model, double bytes, uint32_t ranks) {
    if (ranks < 2) return 0;
    return model->latency_s * messages_of(model->algorithm, ranks) +
           bytes * sent_share(ranks) / model->bytes_per_s;
}

ranks_step_times ranks_model_step(const ranks_model *model, const ranks_step *step, uint32_t ranks) {
    const double backward = step->seconds * step->backward_share, begin = step->seconds - backward;
    double finished = 0, end = 0, bucket = step->first_bucket_bytes;
    ranks_step_times times = {.seconds = step->seconds};
    while (finished < step->gradient_bytes && ranks > 1) {
        const double bytes = fmin(bucket, step->gradient_bytes - finished);
        const double takes = ranks_model_all_reduce(model, bytes, ranks);
        finished += bytes;
        end = fmax(end, begin + backward * finished / step->gradient_bytes) + takes;
        times.communication_s += takes;
        bucket = step->bucket_bytes;
    }
    times.seconds = fmax(step->seconds, end);
    times.hidden_s = times.communication_s - (times.seconds - step->seconds);
    return times;
}
