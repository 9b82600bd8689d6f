/* Plans and tickets: what plan.cpp and ticket.cpp share. */
#ifndef ROTA_PYTHON_PLAN_H
#define ROTA_PYTHON_PLAN_H

#include "core.h"

struct Plan : std::enable_shared_from_this<Plan> {
    rota_plan *plan = nullptr;
    std::shared_ptr<DeviceCore> device; /* none: the plan is only analysed */
    Graph graph;
    uint32_t lane = 0; /* of all its nodes */
    std::string name;
    std::vector<Arg> args;
    bool holds = false; /* calls need host arrays or functions until they have ended */
    std::atomic<uint32_t> calls{0};
    std::mutex mutex;
    std::vector<rota_args *> idle; /* argument sets that no call uses */

    ~Plan() {
        for (rota_args *set : idle) rota_args_release(set);
        rota_plan_release(plan);
    }
};

/* An argument set for one call, which is given back when the call is over. `Lock` holds the plan's mutex: Locked with
 * the interpreter's lock, std::lock_guard without. */
template <typename Lock> class PlanArgs {
  public:
    explicit PlanArgs(Plan &plan) : plan_(plan) {
        if (plan.args.empty()) return;
        {
            Lock lock(plan.mutex);
            if (!plan.idle.empty()) {
                set_ = plan.idle.back();
                plan.idle.pop_back();
                return;
            }
        }
        status_ = rota_args_create(plan.plan, &set_);
    }
    ~PlanArgs() {
        if (!set_) return;
        Lock lock(plan_.mutex);
        plan_.idle.push_back(set_);
    }
    PlanArgs(const PlanArgs &) = delete;
    PlanArgs &operator=(const PlanArgs &) = delete;
    rota_args *get() const { return set_; }
    /* Whether there is one: not, where a plan takes no arguments (OK), or none could be made. */
    rota_status status() const { return status_; }

  private:
    Plan &plan_;
    rota_args *set_ = nullptr;
    rota_status status_ = ROTA_OK;
};

/* What is given for a slot, as its type has it: f32, or one of integers. */
struct Number {
    double real;
    uint64_t whole;
};
/* What a plan gives a slot that counts or has a preset by itself. Needs no lock. */
Number own_number(Plan &plan, const Arg &arg);
rota_status set_number(rota_args *set, const Arg &arg, Number number);

class After;

/* Submits a replay, waiting only where there is no room. `after`: NULL, or what it comes after. */
void submit_plan(Plan &plan, rota_args *set, const After *after, rota_ticket *out_ticket);

struct Output {
    nb::object key;
    rota_tensor like;
    HostArray memory;
    nb::object given; /* the caller's array, or none */
};

struct Ticket {
    rota_ticket ticket{};
    std::shared_ptr<DeviceCore> device;
    std::string plan;
    std::weak_ptr<Plan> source; /* its plan, which it does not keep */
    std::vector<Output> outputs;
};

/* Has the main thread drop an object of Python's when it comes by, or who calls the library before. For threads that
 * may hold locks which somebody with the interpreter's lock waits for. */
void drop_later(int (*drop)(void *object), void *object);
/* Drops what waits for that. With the interpreter's lock, and no other, as it may run code of Python's. */
void drop_waiting();

void bind_xla(nb::module_ &m);

#endif
