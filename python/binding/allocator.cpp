/* Device memory from an allocator of Python's: the calls that the library makes of one (exec/application.h). */
#include "allocator.h"

static nb::object function_of(nb::handle object, const std::string &type, const char *name) {
    const nb::object found = nb::getattr(object, name, nb::none());
    if (!PyCallable_Check(found.ptr()))
        fail(ROTA_INVALID_ARGUMENT, "an allocator has allocate(size_bytes, device, stream) and free(memory, "
                                    "size_bytes, device, stream); " +
                                        type + " has no " + name);
    return found;
}

Allocator::Allocator(nb::handle object, uint32_t device)
    : name_(nb::cast<std::string>(object.type().attr("__name__"))), device_(device) {
    allocate_ = function_of(object, name_, "allocate");
    free_ = function_of(object, name_, "free");
}

uint32_t Allocator::device_of(const std::optional<std::string> &id) {
    const std::string digits = id && id->rfind("cuda:", 0) == 0 ? id->substr(5) : "";
    if (digits.empty() || digits.size() > 4 || digits.find_first_not_of("0123456789") != std::string::npos)
        fail(ROTA_INVALID_ARGUMENT, "an allocator is for a CUDA device, by its id: 'cuda:0', not " +
                                        (id ? "'" + *id + "'" : std::string("None")));
    return static_cast<uint32_t>(std::stoul(digits));
}

void *Allocator::allocate(void *user, uint64_t size_bytes, void *stream) {
    const auto *own = static_cast<const Allocator *>(user);
    const char *const name = own->name_.c_str();
    if (!nb::is_alive()) return nullptr;
    nb::gil_scoped_acquire acquired;
    try {
        const nb::object given =
            own->allocate_(size_bytes, own->device_, reinterpret_cast<uintptr_t>(stream));
        uintptr_t address = 0;
        if (!given.is_none() && !nb::isinstance<nb::bool_>(given) && nb::try_cast(given, address) && address)
            return reinterpret_cast<void *>(address);
        (void)rota_fail(ROTA_OUT_OF_MEMORY, "%s.allocate gave %s, expected an address", name,
                        nb::cast<std::string>(nb::repr(given)).c_str());
    } catch (nb::python_error &error) {
        (void)rota_fail(ROTA_OUT_OF_MEMORY, "%s.allocate raised %s: %s", name,
                        nb::cast<std::string>(error.type().attr("__name__")).c_str(),
                        nb::cast<std::string>(nb::str(error.value())).c_str());
    } catch (const std::exception &error) {
        (void)rota_fail(ROTA_OUT_OF_MEMORY, "%s.allocate: %s", name, error.what());
    }
    return nullptr;
}

void Allocator::free(void *user, void *memory, uint64_t size_bytes, void *stream) {
    const auto *own = static_cast<const Allocator *>(user);
    if (!nb::is_alive()) return; /* the interpreter has ended, and its allocators with it */
    nb::gil_scoped_acquire acquired;
    try {
        own->free_(reinterpret_cast<uintptr_t>(memory), size_bytes, own->device_,
                   reinterpret_cast<uintptr_t>(stream));
    } catch (nb::python_error &error) {
        error.discard_as_unraisable(own->free_);
    }
}

rota_status Allocator::open(const rota_runtime_options *options, rota_device **out_device) {
    rota_runtime *runtime = nullptr;
    ROTA_TRY(rota_runtime_open(options, &runtime));
    rota_cuda_context given = ROTA_CUDA_CONTEXT();
    given.index = device_;
    given.allocate = allocate;
    given.free = free;
    given.user = this;
    const rota_status status = rota_device_open_cuda(runtime, &given, out_device);
    if (status == ROTA_OK) return ROTA_OK;
    const std::string sentence = rota_last_error();
    (void)rota_runtime_close(runtime, 0); /* or it is abandoned, and so is what it has of this */
    return rota_fail(status, "%s", sentence.c_str());
}
