/* PyTorch in a child process, to be timed in the same run. */
#include "bench/torch.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads "set ..." with what the operands are and answers with "set"; "eager" or "graph" and a number of products a line
 * and answers with milliseconds each, of a run that follows one like it. */
static const char script[] =
    "import sys, time\n"
    "try:\n"
    "    import torch\n"
    "except ImportError:\n"
    "    print('none', flush=True); sys.exit(0)\n"
    "gpu, dtype = sys.argv[1] == '1', sys.argv[2]\n"
    "scaled = dtype.startswith('f8')\n"
    "dtype = {'f32': torch.float32, 'f16': torch.float16, 'bf16': torch.bfloat16, 'f8_e4m3fn': "
    "torch.float8_e4m3fn,\n"
    "         'f8_e5m2': torch.float8_e5m2}[dtype]\n"
    "if gpu and not torch.cuda.is_available():\n"
    "    print('none', flush=True); sys.exit(0)\n"
    "torch.backends.cuda.matmul.allow_tf32 = False\n"
    "device = 'cuda' if gpu else 'cpu'\n"
    "operands, graphs, one = [], {}, torch.ones((), device=device)\n"
    "def read(batch, m, n, k, pad, turn_a, turn_b, sets, path):\n"
    "    def matrix(data, rows, columns, turned):\n"
    "        if turned: rows, columns = columns, rows\n"
    "        view = data.view(batch, rows, columns + pad)[:, :, :columns]\n"
    "        if turned: view = view.transpose(1, 2)\n"
    "        return view[0] if batch == 1 else view\n"
    "    def count(rows, columns, turned):\n"
    "        return batch * (columns * (rows + pad) if turned else rows * (columns + pad))\n"
    "    of_a, of_b = count(m, k, turn_a), count(k, n, turn_b)\n"
    "    operands.clear()\n"
    "    graphs.clear()\n"
    "    whole = torch.from_file(path, size=sets * (of_a + of_b) * dtype.itemsize, "
    "dtype=torch.uint8).view(dtype)\n"
    "    for s in range(sets):\n"
    "        part = whole[s * (of_a + of_b):(s + 1) * (of_a + of_b)].to(device, copy=True)\n"
    "        c = torch.empty(count(m, n, 0), dtype=torch.bfloat16 if scaled else dtype, device=device)\n"
    "        operands.append((matrix(part[:of_a], m, k, turn_a), matrix(part[of_a:], k, n, turn_b), "
    "matrix(c, m, n, 0)))\n"
    "def eager(times):\n"
    "    for i in range(times):\n"
    "        a, b, c = operands[i % len(operands)]\n"
    "        if scaled: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, out=c)\n"
    "        else: torch.matmul(a, b, out=c)\n"
    "def graph(count):\n"
    "    if count not in graphs:\n"
    "        side = torch.cuda.Stream()\n"
    "        with torch.cuda.stream(side): eager(len(operands))\n"
    "        torch.cuda.synchronize()\n"
    "        graphs[count] = torch.cuda.CUDAGraph()\n"
    "        with torch.cuda.graph(graphs[count]): eager(count)\n"
    "    return graphs[count].replay\n"
    "def run(how, count):\n"
    "    call = graph(count) if how == 'graph' else lambda: eager(count)\n"
    "    call()\n"
    "    if gpu: torch.cuda.synchronize()\n"
    "    begin = time.perf_counter()\n"
    "    call()\n"
    "    if gpu: torch.cuda.synchronize()\n"
    "    return (time.perf_counter() - begin) * 1e3 / count\n"
    "print('ready', torch.__version__, flush=True)\n"
    "for line in sys.stdin:\n"
    "    how, *rest = line.split()\n"
    "    if how == 'set':\n"
    "        read(*map(int, rest[:-1]), rest[-1])\n"
    "        print('set', flush=True)\n"
    "    else:\n"
    "        print(repr(run(how, int(rest[0]))), flush=True)\n";

/* A torch that never answers must not hang the benchmark. */
#define ANSWER_MS 120000

static bool read_line(torch_child *child, char *line, int size) {
    struct pollfd waited = {.fd = fileno(child->from), .events = POLLIN};
    return poll(&waited, 1, ANSWER_MS) == 1 && fgets(line, size, child->from);
}

bool torch_start(torch_child *child, bool gpu, rota_dtype dtype) {
    *child = (torch_child){.gpu = gpu};
    int to[2], from[2];
    if (pipe(to) != 0) return false;
    if (pipe(from) != 0) {
        close(to[0]);
        close(to[1]);
        return false;
    }
    signal(SIGPIPE, SIG_IGN);
    child->process = fork();
    if (child->process == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        for (int i = 0; i < 2; i++) {
            close(to[i]);
            close(from[i]);
        }
        execlp("python3", "python3", "-c", script, gpu ? "1" : "0", rota_dtype_name(dtype), (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    child->to = fdopen(to[1], "w");
    child->from = fdopen(from[0], "r");
    char line[128] = "";
    if (child->process > 0 && child->to && child->from && read_line(child, line, sizeof line) &&
        strncmp(line, "ready ", 6) == 0) {
        printf("compared with PyTorch %s", line + 6);
        return true;
    }
    fprintf(stderr, "note: python3 has no torch for this device; nothing to compare with\n");
    torch_stop(child);
    return false;
}

bool torch_set(torch_child *child, const matmul_shape *shape, uint64_t sets, const char *path) {
    char line[128];
    return fprintf(child->to,
                   "set %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %d %" PRIu64 " %s\n",
                   shape->batch, shape->m, shape->n, shape->k, shape->pad, shape->transpose_a,
                   shape->transpose_b, sets, path) > 0 &&
           fflush(child->to) == 0 && read_line(child, line, sizeof line) && strcmp(line, "set\n") == 0;
}

bool torch_run(torch_child *child, bool graph, uint64_t iters, double *out_ms) {
    char line[128], *end;
    if (fprintf(child->to, "%s %" PRIu64 "\n", graph ? "graph" : "eager", iters) < 0 ||
        fflush(child->to) != 0 || !read_line(child, line, sizeof line))
        return false;
    *out_ms = strtod(line, &end);
    return end != line && *out_ms > 0;
}

void torch_stop(torch_child *child) {
    if (child->to) fclose(child->to);
    if (child->from) fclose(child->from);
    if (child->process > 0) {
        kill(child->process, SIGKILL);
        waitpid(child->process, NULL, 0);
    }
    *child = (torch_child){0};
}
