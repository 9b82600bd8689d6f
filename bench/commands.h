/* The subcommands of rota-bench. Each takes the arguments after its name and returns the exit code. */
#ifndef ROTA_BENCH_COMMANDS_H
#define ROTA_BENCH_COMMANDS_H

#define BENCH_COMMANDS(X)                                                                                    \
    X(plan, "record and compile times, edges, barriers and arena of a graph; needs no device")

#define BENCH_DECLARE(name, text) int bench_##name(int argc, char **argv);
BENCH_COMMANDS(BENCH_DECLARE)
#undef BENCH_DECLARE

#endif
