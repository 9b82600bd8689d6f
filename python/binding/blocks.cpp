/* Nodes that decide: `with` blocks of a graph, whose ops become the bodies of an if, a while, a for or a switch. */
#include "core.h"

namespace {

enum class Decides { IF, WHILE, FOR, SWITCH };

/* A block of a `with` statement: its bodies, and the node that they become when it ends. */
struct BlockCore {
    Graph outer;
    Decides kind;
    Tensor condition, index; /* index: of a for */
    uint64_t iterations_max = 0;
    std::string name;
    std::map<uint32_t, Graph> bodies;
    bool begun = false, ended = false;

    BlockCore(Graph of, Decides decides, const Tensor &on)
        : outer(std::move(of)), kind(decides), condition(on) {}
};
using Block = std::shared_ptr<BlockCore>;

/* One body more of a block: otherwise() of an if, the cases of a switch. */
struct Arm {
    Block block;
    uint32_t number;
};

std::string block_text(const BlockCore &block) {
    const char *kinds[] = {"if_", "while_", "for_", "switch"};
    return "graph '" + block.outer->name + "', " + kinds[static_cast<int>(block.kind)];
}

/* A graph for a body, with a lane and a tape of its own, as make_graph (graph.cpp). */
void begin_body(BlockCore &block, uint32_t number) {
    if (block.bodies.count(number))
        fail(ROTA_WRONG_STATE, block_text(block) + ": body " + std::to_string(number) + " is there already");
    auto body = std::make_shared<GraphCore>();
    {
        Locked lock(block.outer->mutex);
        if (block.outer->ended)
            fail(ROTA_WRONG_STATE, block_text(block) + ": the graph is compiled, or its block has ended");
        body->outer = block.outer;
        body->device = block.outer->device;
        body->name = block.outer->name + "." + block.name;
        check(rota_graph_create_body(block.outer->graph, body->name.c_str(), &body->graph));
    }
    check(rota_recorder_open(body->graph, 0, nullptr, &body->recorder));
    rota_tape_options tape = ROTA_TAPE_OPTIONS();
    check(rota_tape_create(body->recorder, &tape, &body->tape));
    enter_graph(body);
    block.bodies[number] = body;
}

void end_body(const BlockCore &block, uint32_t number) {
    const Graph &body = block.bodies.at(number);
    leave_graph(body);
    Locked lock(body->mutex);
    if (body->ended) return;
    rota_tape_destroy(body->tape);
    body->tape = nullptr;
    rota_recorder_close(body->recorder);
    body->ended = true;
}

rota_graph *body_of(const BlockCore &block, uint32_t number) {
    const auto found = block.bodies.find(number);
    if (found == block.bodies.end()) return nullptr;
    rota_graph_retain(found->second->graph); /* the node takes one */
    return found->second->graph;
}

rota_status record_node(const BlockCore &block, const char *name, std::vector<rota_graph *> &taken) {
    const uint64_t offset = block.condition.t.offset_bytes;
    rota_recorder *recorder = block.outer->recorder;
    if (block.kind == Decides::IF) {
        taken = {body_of(block, 0), body_of(block, 1)};
        rota_if_node node = ROTA_IF_NODE();
        node.name = name;
        node.condition = block.condition.t.buffer;
        node.condition_offset_bytes = offset;
        node.body = taken[0];
        node.otherwise = taken[1];
        return rota_record_if(recorder, &node, nullptr);
    }
    if (block.kind == Decides::WHILE) {
        taken = {body_of(block, 0)};
        rota_while_node node = ROTA_WHILE_NODE();
        node.name = name;
        node.condition = block.condition.t.buffer;
        node.condition_offset_bytes = offset;
        node.body = taken[0];
        node.iterations_max = block.iterations_max;
        return rota_record_while(recorder, &node, nullptr);
    }
    if (block.kind == Decides::FOR) {
        taken = {body_of(block, 0)};
        rota_for_node node = ROTA_FOR_NODE();
        node.name = name;
        node.count = block.condition.t.buffer;
        node.count_offset_bytes = offset;
        node.index = block.index.t.buffer;
        node.index_offset_bytes = block.index.t.offset_bytes;
        node.body = taken[0];
        node.iterations_max = block.iterations_max;
        return rota_record_for(recorder, &node, nullptr);
    }
    const uint32_t count = block.bodies.rbegin()->first + 1;
    for (uint32_t i = 0; i < count; i++) taken.push_back(body_of(block, i));
    rota_switch_node node = ROTA_SWITCH_NODE();
    node.name = name;
    node.condition = block.condition.t.buffer;
    node.condition_offset_bytes = offset;
    node.bodies = taken.data();
    node.body_count = count;
    return rota_record_switch(recorder, &node, nullptr);
}

/* The graph gets the node, and what its bodies' nodes hold. */
void put_node(const BlockCore &block) {
    Locked lock(block.outer->mutex);
    if (block.outer->ended)
        fail(ROTA_WRONG_STATE, block_text(block) + ": the graph is compiled, or its block has ended");
    for (const auto &[number, body] : block.bodies) {
        if (!body->device) continue;
        if (!block.outer->device) block.outer->device = body->device;
        if (block.outer->device != body->device)
            fail(ROTA_INVALID_ARGUMENT, block_text(block) + ": the graph is for device '" +
                                            block.outer->device->id + "', what the block uses is on '" +
                                            body->device->id + "'");
    }
    std::vector<rota_graph *> taken;
    block.outer->names.push_back(block.name); /* plans hold the graph */
    const rota_status status = record_node(block, block.outer->names.back().c_str(), taken);
    if (status != ROTA_OK) {
        const std::string sentence = rota_last_error();
        for (rota_graph *graph : taken) rota_graph_release(graph);
        fail(status, sentence);
    }
    for (const auto &[number, body] : block.bodies)
        block.outer->anchors->insert(block.outer->anchors->end(), body->anchors->begin(),
                                     body->anchors->end());
}

void require_word(const Tensor &tensor, const std::string &what) {
    if (rota_tensor_count(&tensor.t) != 1 || rota_dtype_bytes(tensor.t.dtype) != 4)
        fail(ROTA_INVALID_ARGUMENT,
             what + ": " + tensor.describe() + " decides; expected one element of 4 bytes");
}

Block make_block(const Graph &named, Decides kind, const Tensor &condition, uint64_t iterations_max,
                 const std::string &name) {
    auto block = std::make_shared<BlockCore>(innermost_graph(named), kind, condition);
    block->iterations_max = iterations_max;
    block->name = name;
    require_word(condition, block_text(*block));
    Recording recording(block->outer, &condition);
    return block;
}

Block make_if(const Graph &graph, const Tensor &condition, const std::string &name) {
    return make_block(graph, Decides::IF, condition, 0, name);
}

Block make_while(const Graph &graph, const Tensor &condition, uint64_t iterations_max,
                 const std::string &name) {
    return make_block(graph, Decides::WHILE, condition, iterations_max, name);
}

Block make_for(const Graph &graph, const Tensor &count, uint64_t iterations_max, const std::string &name) {
    return make_block(graph, Decides::FOR, count, iterations_max, name);
}

Block make_switch(const Graph &graph, const Tensor &value, const std::string &name) {
    return make_block(graph, Decides::SWITCH, value, 0, name);
}

/* A for's number, which is written before it is read whether an iteration runs or not. */
Tensor make_index(const BlockCore &block) {
    Recording recording(block.outer, nullptr);
    rota_tensor made;
    check(rota_tape_tensor(recording.tape(), ROTA_BUFFER_TRANSIENT, "index", ROTA_I32, 0, nullptr, &made));
    const Tensor index = recording.made(made);
    check(rota_record_fill(recording.core().recorder, made.buffer, made.offset_bytes, 4, 0, nullptr));
    return index;
}

nb::object enter_block(const Block &block) {
    if (block->begun) fail(ROTA_WRONG_STATE, block_text(*block) + ": a block is entered once");
    block->begun = true;
    if (block->kind == Decides::SWITCH) return nb::cast(block);
    if (block->kind != Decides::FOR) {
        begin_body(*block, 0);
        return nb::cast(block);
    }
    const Tensor index = make_index(*block);
    block->index.t = index.t;
    block->index.graph = index.graph;
    rota_buffer_retain(block->index.t.buffer);
    begin_body(*block, 0);
    return nb::cast(Tensor(index));
}

void exit_block(const Block &block, nb::handle type, nb::handle, nb::handle) {
    if (block->kind != Decides::SWITCH) end_body(*block, 0);
    block->ended = true;
    if (!type.is_none()) return; /* what was raised in it goes on, and nothing is recorded */
    if (block->bodies.empty())
        fail(ROTA_INVALID_ARGUMENT,
             block_text(*block) + ": it has no case; expected `with block.case(0):` within it");
    put_node(*block);
}

Arm make_arm(const Block &block, uint32_t number, Decides kind) {
    if (block->kind != kind)
        fail(ROTA_INVALID_ARGUMENT,
             block_text(*block) + ": an if has otherwise(), a switch case(), others neither");
    if (!block->begun || block->ended)
        fail(ROTA_WRONG_STATE, block_text(*block) + ": its bodies are given inside of its `with` block");
    return Arm{block, number};
}

} // namespace

void bind_blocks(nb::module_ &m) {
    nb::class_<Arm>(m, "Arm", "One body of a block that decides, for `with`.")
        .def(
            "__enter__", [](const Arm &arm) { begin_body(*arm.block, arm.number); },
            nb::sig("def __enter__(self) -> None"))
        .def(
            "__exit__", [](const Arm &arm, nb::args) { end_body(*arm.block, arm.number); },
            nb::sig("def __exit__(self, *args: object) -> None"));
    nb::class_<BlockCore> block(m, "Block", "An if, a while or a switch that is being recorded, for `with`.");
    block
        .def(
            "otherwise", [](const Block &of) { return make_arm(of, 1, Decides::IF); },
            nb::sig("def otherwise(self) -> Arm"),
            "What is run where the condition is 0: a `with` block inside of the if's own.")
        .def(
            "case", [](const Block &of, uint32_t number) { return make_arm(of, number, Decides::SWITCH); },
            "number"_a, nb::sig("def case(self, number: int) -> Arm"),
            "What is run where the value is this number: a `with` block inside of the switch's own.")
        .def("__enter__", &enter_block, nb::sig("def __enter__(self) -> typing.Any"))
        .def("__exit__", &exit_block, nb::arg().none(), nb::arg().none(), nb::arg().none(),
             nb::sig("def __exit__(self, type: object, value: object, traceback: object) -> None"));
}

void bind_deciding(nb::class_<GraphCore> &graph) {
    graph
        .def("if_", &make_if, "condition"_a, nb::kw_only(), "name"_a = "if",
             nb::sig("def if_(self, condition: Tensor, *, name: str = 'if') -> Block"),
             "A `with` block whose ops run, in a replay, if the condition is not 0: one element of 4 bytes, "
             "read when "
             "the replay comes to it. `with g.if_(c) as block:` may have `with block.otherwise():` inside of "
             "it.")
        .def("while_", &make_while, "condition"_a, nb::kw_only(), "iterations_max"_a, "name"_a = "while",
             nb::sig(
                 "def while_(self, condition: Tensor, *, iterations_max: int, name: str = 'while') -> Block"),
             "A `with` block whose ops run again and again while the condition is not 0, which is read "
             "before each "
             "iteration; where it is not after so many, the ticket fails.")
        .def("for_", &make_for, "count"_a, nb::kw_only(), "iterations_max"_a, "name"_a = "for",
             nb::sig("def for_(self, count: Tensor, *, iterations_max: int, name: str = 'for') -> Block"),
             "A `with` block whose ops run as often as an element of 4 bytes says, unsigned: `with g.for_(n, "
             "iterations_max=9) as i:` has the iteration's number, an i32 tensor without axes, from 0.")
        .def("switch", &make_switch, "value"_a, nb::kw_only(), "name"_a = "switch",
             nb::sig("def switch(self, value: Tensor, *, name: str = 'switch') -> Block"),
             "A `with` block in which `with block.case(0):`, and so on, are what is run where an element of "
             "4 bytes "
             "has that number; nothing where there is no such.");
}
