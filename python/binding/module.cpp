/* The extension module rota._rota. */
#include "plan.h"

NB_MODULE(_rota, m) {
    m.doc() = "rota's objects; import rota has them all.";
    nb::set_leak_warnings(false); /* tensors may outlive the module at the interpreter's end */
    bind_device(m);
    bind_tensor(m);
    bind_communicator(m);
    bind_tensor_parallel(m);
    bind_graph(m);
    bind_plan(m);
    bind_ticket(m);
    bind_kernel(m);
    bind_memory(m);
    bind_ops(m);
    bind_layers(m);
    bind_windows(m);
    bind_table(m);
    bind_xla(m);
}
