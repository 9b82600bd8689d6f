// rota.hpp: what owns ends what it owns, references are counted, errors carry status and sentence, ranges are
// what they are made of. Run with the leak checker where there is one.
#include <rota/rota.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            std::fprintf(stderr, "line %d: not so: %s (%s)\n", __LINE__, #condition, rota_last_error());     \
            std::exit(1);                                                                                    \
        }                                                                                                    \
    } while (0)

template <typename Call> static rota::error thrown(Call call) {
    try {
        call();
    } catch (const rota::error &error) {
        return error;
    }
    return rota::error(ROTA_OK, "nothing was thrown");
}

static_assert(!std::is_copy_constructible<rota::runtime>::value &&
                  !std::is_copy_assignable<rota::args>::value,
              "owners move");
static_assert(std::is_nothrow_move_constructible<rota::runtime>::value, "owners move");
static_assert(std::is_copy_constructible<rota::plan>::value, "references are copied");
static_assert(sizeof(rota::runtime) == sizeof(void *) && sizeof(rota::buffer) == sizeof(void *), "thin");

static void ranges() {
    int array[] = {1, 2, 3};
    std::vector<int> vector = {4, 5};
    const std::array<int, 4> fixed = {{6, 7, 8, 9}};
    rota::span<int> all(array), some = vector;
    rota::span<const int> constant = fixed, of_vector = vector;
    EXPECT(all.size() == 3 && all[2] == 3 && all.size_bytes() == 3 * sizeof(int) &&
           some.data() == vector.data());
    EXPECT(constant.size() == 4 && of_vector.size() == 2);
    int sum = 0;
    for (int element : constant) sum += element;
    EXPECT(sum == 30);
    EXPECT(rota::span<int>().size() == 0 && rota::span<int>().begin() == rota::span<int>().end());
    const std::size_t n = vector.size();
    const rota::shape shape{n, 64, 1u};
    EXPECT(shape.rank() == 3 && shape.data()[0] == 2 && shape.data()[1] == 64 && shape.data()[2] == 1);
}

static void errors(rota::runtime &runtime) {
    const rota::error none = thrown([&] { runtime.device("none:7"); });
    EXPECT(none.status() == ROTA_NOT_FOUND && std::strstr(none.what(), "none:7"));
    const rota::error empty = thrown([&] { runtime.buffer("nothing", 0); });
    EXPECT(empty.status() == ROTA_INVALID_ARGUMENT && *empty.what());
    rota::buffer buffer = runtime.buffer("small", 16);
    EXPECT(thrown([&] { buffer.view(8, 16); }).status() == ROTA_OUT_OF_RANGE);
    EXPECT(thrown([&] { buffer.tensor(ROTA_F32, {5}); }).status() == ROTA_OUT_OF_RANGE);
    EXPECT(thrown([&] {
               std::vector<float> read(4);
               buffer.read(read);
           }).status() == ROTA_UNDEFINED_DATA);
    EXPECT(thrown([] { rota::check(ROTA_OK); }).status() == ROTA_OK);
}

// Recorded, trained one step, and read; all objects end at the end of their blocks, in any order.
static void work(rota::runtime &runtime, rota::device device) {
    const float weights[] = {1, 2, 3, 4};
    rota::buffer w = runtime.buffer("w", weights, device);
    rota::buffer twin = w, other = runtime.buffer("other", 16);
    twin = twin.view(0, 8);
    other = std::move(twin);
    EXPECT(other.size_bytes() == 8 && !twin && std::strcmp(w.name(), "w") == 0);

    rota::plan plan;
    rota_slot rate;
    rota::buffer input, output;
    {
        rota::graph graph;
        rate = graph.slot("rate");
        input = graph.buffer(ROTA_BUFFER_INPUT, "x", sizeof weights);
        output = graph.buffer(ROTA_BUFFER_OUTPUT, "y", sizeof weights);
        rota::recorder recorder = graph.recorder(3, "lane");
        {
            rota::tape tape(recorder);
            const rota_tensor x = input.tensor(ROTA_F32, {4}), p = w.tensor(ROTA_F32, {4});
            tape.name("product");
            EXPECT(thrown([&] { recorder.last_node(); }).status() == ROTA_NOT_FOUND);
            const rota_tensor y = tape.op(rota_op_mul, x, p);
            EXPECT(recorder.last_node().index == 0);
            tape.into(rota_op_copy_into, y, output.tensor(ROTA_F32, {4}));
            const rota_tensor loss = tape.op(rota_op_sum, y, 0u, true);
            const std::vector<rota_tensor> gradients =
                tape.backward(loss, rota::span<const rota_tensor>(&p, 1));
            EXPECT(gradients.size() == 1);
            tape.into(rota_op_add_into, p, tape.op(rota_op_scale, gradients[0], ROTA_SLOT(rate)), p);
        }
        rota::recorder moved = std::move(recorder);
        EXPECT(!recorder && moved);
        moved = rota::recorder();
        plan = runtime.compile(graph, device);
    }
    rota::args args(plan), more;
    more = std::move(args);
    const std::vector<float> x = {10, 20, 30, 40};
    std::array<float, 4> y{}, after{};
    more.set_input(input, rota::span<const float>(x));
    more.set_output(output, rota::span<float>(y));
    EXPECT(thrown([&] { plan.submit(more); }).status() == ROTA_INVALID_ARGUMENT); // no rate yet
    more.set(rate, 0.5f);
    const rota::ticket first = plan.submit(more);
    first.wait_inputs_taken();
    first.wait();
    EXPECT(first.done() && y[0] == 10 && y[3] == 160);
    first.cancel(); // it has ended
    EXPECT(first.done() && thrown([&] { rota::ticket().cancel(); }).status() == ROTA_INVALID_ARGUMENT);
    plan.try_submit(more).wait();
    w.read(after);
    EXPECT(after[0] == 1 + 2 * 5 && after[3] == 4 + 2 * 20);
    EXPECT(y[0] == 60);
    EXPECT(runtime.stats().completed >= 2);
}

// The short way: a tape with a graph of its own, submitted as options say.
static void direct(rota::runtime &runtime, rota::device device) {
    const float ones[] = {1, 1, 1};
    rota::buffer x = runtime.buffer("x", ones, device);
    rota::plan plan;
    rota_submit_options options = ROTA_SUBMIT_OPTIONS();
    {
        rota::tape tape(device);
        tape.into(rota_op_scale_into, x.tensor(ROTA_F32, {3}), ROTA_PLAIN(2), x.tensor(ROTA_F32, {3}));
        tape.submit().wait();
        options.no_wait = true;
        tape.submit(&options).wait();
        plan = tape.compile();
        EXPECT(thrown([&] { tape.op(rota_op_exp, x.tensor(ROTA_F32, {3})); }).status() == ROTA_WRONG_STATE);
    }
    plan.submit(options).wait();
    std::array<float, 3> got{};
    x.read(got);
    EXPECT(got[0] == 8 && got[2] == 8);
    options.timeout_ns = 1;
    EXPECT(thrown([&] { plan.submit(options); }).status() == ROTA_INVALID_ARGUMENT);
}

// A body of w *= factor, with a lane that has ended.
static rota::graph scaling(const rota::graph &graph, const rota_tensor &w, double factor) {
    rota::graph body = graph.body("scaling");
    rota::recorder lane = body.recorder();
    rota::tape tape(lane);
    tape.into(rota_op_scale_into, w, ROTA_PLAIN(factor), w);
    return body;
}

// Nodes that decide take their bodies, or throw and leave nothing.
static void deciding(rota::runtime &runtime, rota::device device) {
    const float one[] = {1};
    const std::uint32_t words[] = {0, 3, 2, 0};
    rota::buffer w = runtime.buffer("w", one, device), counts = runtime.buffer("counts", words, device);
    const rota_tensor x = w.tensor(ROTA_F32, {1});
    rota::plan plan;
    {
        rota::graph graph;
        rota::recorder lane = graph.recorder();
        rota_if_node choice = ROTA_IF_NODE();
        choice.condition = counts.get();
        lane.if_(choice, scaling(graph, x, 100));
        lane.if_(choice, scaling(graph, x, 100), scaling(graph, x, 2));
        rota_for_node loop = ROTA_FOR_NODE();
        loop.count = counts.get();
        loop.count_offset_bytes = 4;
        EXPECT(thrown([&] { lane.for_(loop, scaling(graph, x, 3)); }).status() == ROTA_INVALID_ARGUMENT);
        loop.iterations_max = 3;
        lane.for_(loop, scaling(graph, x, 3));
        rota_switch_node chosen = ROTA_SWITCH_NODE();
        chosen.condition = counts.get();
        chosen.condition_offset_bytes = 8;
        std::vector<rota::graph> bodies;
        bodies.push_back(scaling(graph, x, 100));
        bodies.emplace_back(nullptr);
        bodies.push_back(scaling(graph, x, 5));
        lane.switch_(chosen, std::move(bodies));
        rota_while_node never = ROTA_WHILE_NODE();
        never.condition = counts.get();
        never.condition_offset_bytes = 12;
        never.iterations_max = 1;
        EXPECT(lane.while_(never, scaling(graph, x, 100)).index == 4);
        lane = rota::recorder();
        plan = runtime.compile(graph, device);
    }
    plan.submit().wait();
    std::array<float, 1> got{};
    w.read(got);
    EXPECT(got[0] == 2 * 27 * 5);
}

// A copy that is counted, and an error of one.
static void counted(rota::runtime &runtime, rota::device device) {
    const float from[] = {1, 2, 3, 4}, to[] = {5, 6, 7, 8};
    const std::uint32_t words[] = {3};
    rota::buffer x = runtime.buffer("x", from, device), y = runtime.buffer("y", to, device),
                 count = runtime.buffer("count", words, device);
    rota::plan plan;
    {
        rota::graph graph;
        rota::recorder lane = graph.recorder();
        rota_count counts = ROTA_COUNT();
        counts.buffer = count.get();
        counts.unit_bytes = 4;
        EXPECT(thrown([&] { lane.counted_copy(y, 0, x, 0, counts); }).status() == ROTA_INVALID_ARGUMENT);
        EXPECT(thrown([&] { lane.counted_kernel(ROTA_KERNEL_NODE(), counts); }).status() ==
               ROTA_INVALID_ARGUMENT);
        counts.max = 4;
        EXPECT(lane.counted_copy(y, 0, x, 0, counts).index == 0);
        lane = rota::recorder();
        plan = runtime.compile(graph, device);
    }
    plan.submit().wait();
    std::array<float, 4> got{};
    y.read(got);
    EXPECT((got == std::array<float, 4>{1, 2, 3, 8}));
}

int main() {
    ranges();
    rota::runtime empty{nullptr}, runtime;
    rota::device device = runtime.device("cpu");
    EXPECT(std::strcmp(device.info().id, "cpu") == 0);
    device.smoke();
    errors(runtime);
    work(runtime, device);
    direct(runtime, device);
    deciding(runtime, device);
    counted(runtime, device);
    // What was released is freed by a thread of the runtime's.
    const std::uint64_t deadline = rota_deadline_after(UINT64_C(20000000000));
    while (runtime.stats().plans + runtime.stats().buffers && rota_clock_ns() < deadline)
        std::this_thread::yield();
    EXPECT(runtime.stats().plans == 0 && runtime.stats().buffers == 0);

    rota::buffer outlives = runtime.buffer("outlives", 64);
    empty = std::move(runtime);
    EXPECT(!runtime && empty);
    empty.close(UINT64_C(10000000000));
    empty.close(0); // empty by now
    EXPECT(rota::ticket().get().id == 0);
    rota_runtime_options options = ROTA_RUNTIME_OPTIONS();
    options.queues_per_device = 1000000;
    EXPECT(thrown([&] { rota::runtime refused(options); }).status() == ROTA_INVALID_ARGUMENT);
}
