/* One rank that rota-run started: between mpirun and the program. */
#ifndef ROTA_BENCH_ROTA_RUN_RANK_H
#define ROTA_BENCH_ROTA_RUN_RANK_H

/* What a rank says to rota-run, all of it by standard error, which mpirun brings from whichever host: lines that begin
 * with this and the run's token. What else stands there is mpirun's own. mpirun mixes what ranks print in pieces of its
 * choice, not by lines; but a rank's standard error is a pipe, and where that keeps apart what was written at once (a
 * pipe's packets, of at most PIPE_BUF bytes), each piece is whole lines. */
#define RANK_MARK "\036rota-run "
#define RANK_PACKET 4096u

/* Of the words behind the token: what happened, rank, number, process, host.
 *   started 2 0 4711 node7
 *   exited 2 1 4711 node7       rank 2 ended with status 1
 *   killed 2 9 4711 node7       rank 2 was ended by signal 9
 *   stopped 2 19 4711 node7     rank 2 stands still
 *   continued 2 0 4711 node7
 * And "out 2 TEXT", "error 2 TEXT": a line that it printed. */

/* Runs the program, argv[0] and on, as the rank that the environment says, with what it prints tagged, until it has
 * ended. SIGUSR1 is passed as SIGTERM, SIGUSR2 as itself. Returns what is to be this process's exit status: the
 * program's, or 128 and the signal. */
int rank_run(const char *token, char **argv);

#endif
