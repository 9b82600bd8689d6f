/* The subcommands of rota-bench. Each takes the arguments after its name and returns the exit code. */
#ifndef ROTA_BENCH_COMMANDS_H
#define ROTA_BENCH_COMMANDS_H

#define BENCH_COMMANDS(X)                                                                                    \
    X(devices, "every device with what it offers or lacks, and which one is the default")                    \
    X(smoke, "the smoke test of one device")                                                                 \
    X(matmul, "matrix products in a graph recorded once and replayed, checked and timed")                    \
    X(replay, "what a replay costs beside the same work through the raw API")                                \
    X(run, "a graph from a file, on any device, compared with the results in the file and timed")            \
    X(ops, "every op: correct against a reference, time, GB/s, TFLOP/s")                                     \
    X(fuse, "a chain of elementwise ops, fused and one by one")                                              \
    X(gpt2, "a training step of GPT-2 by train_gpt, and PyTorch's beside it in the same call")               \
    X(loops, "a node that decides, beside a loop over plain calls and one that submits each iteration")      \
    X(spread, "a graph on each of several devices alone, and placed on all of them by rota")                 \
    X(peer, "bytes from one GPU to another and waits of one for the other, beside the driver's own")         \
    X(ranks, "collectives between ranks, checked and timed; what a model has them take with many more")      \
    X(submit, "many threads submitting small plans, against the same behind a mutex")                        \
    X(soak, "minutes of everything at once, all of it checked: what comes out wrong, grows or is left over") \
    X(structures, "structures for threads: Concurrency Kit's beside the same in C11")                        \
    X(plan, "record and compile times, edges, barriers and arena of a graph; needs no device")

#define BENCH_DECLARE(name, text) int bench_##name(int argc, char **argv);
BENCH_COMMANDS(BENCH_DECLARE)
#undef BENCH_DECLARE

/* What a command does, by its program's name: "rota-bench plan". */
const char *bench_text(const char *program);

#endif
