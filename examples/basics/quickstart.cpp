// quickstart.c in C++17: what it makes ends by itself, and what goes wrong is an exception. quickstart
// [DEVICE]
#include <rota/rota.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void run(const char *device_id) {
    rota::runtime runtime;
    rota::device device = runtime.device(device_id);

    // Two buffers that live across replays.
    std::vector<float> ones(1024, 1.0f), result(1024);
    rota::buffer a = runtime.buffer("a", ones, device);
    rota::buffer sum = runtime.buffer("sum", ones, device);

    // Record once: sum = sum + k a, with k an argument of each replay.
    rota::graph graph;
    rota_slot k = graph.slot("k");
    {
        rota::recorder recorder = graph.recorder();
        rota::tape tape(recorder);
        rota_tensor total = sum.tensor(ROTA_F32, {ones.size()});
        rota_tensor scaled = tape.op(rota_op_scale, a.tensor(ROTA_F32, {ones.size()}), ROTA_SLOT(k));
        tape.into(rota_op_add_into, total, scaled, total);
    }

    // Compile once, replay with k = 1, 2, 3.
    rota::plan plan = runtime.compile(graph, device);
    rota::args args(plan);
    for (int step = 1; step <= 3; step++) {
        args.set(k, static_cast<float>(step));
        plan.submit(args);
    }
    // Reading is ordered like a node: after everything submitted before it.
    sum.read(result);
    std::printf("%s: 1 + 1 + 2 + 3 = %g\n", device.info().name, static_cast<double>(result.back()));
}

int main(int argc, char **argv) {
    try {
        run(argc > 1 ? argv[1] : nullptr);
    } catch (const rota::error &error) {
        std::fprintf(stderr, "%s: %s\n", rota_status_name(error.status()), error.what());
        std::fflush(stdout);
        std::_Exit(1); // the exit handlers of a driver may wait for ever for a device that hangs
    }
}
