/* Ranks: what graphs and devices know of communicators. */
#ifndef ROTA_PYTHON_COMMUNICATOR_H
#define ROTA_PYTHON_COMMUNICATOR_H

#include "core.h"

/* A rank of a communicator. It is closed before its device is, which does so where nobody has. */
struct CommunicatorCore {
    rota_communicator *communicator = nullptr;
    std::shared_ptr<DeviceCore> device;
    std::string name;
    uint32_t rank = 0, size = 0;
    std::atomic<bool> closed{false};
    std::atomic<uint64_t> users{0}; /* calls on it that are running */

    ~CommunicatorCore();
    void close(uint64_t timeout);
    /* The same without the interpreter's lock, and without an exception. Waits for calls on it that are running. */
    rota_status end(uint64_t timeout, std::string *out_sentence);
};

/* A call on a communicator, which is not closed as long as it runs, nor its device: as Use. */
class CommunicatorUse {
  public:
    explicit CommunicatorUse(CommunicatorCore &core);
    ~CommunicatorUse() { core_.users.fetch_sub(1); }
    CommunicatorUse(const CommunicatorUse &) = delete;
    CommunicatorUse &operator=(const CommunicatorUse &) = delete;

  private:
    Use use_;
    CommunicatorCore &core_;
};

/* Nothing is recorded for another device's runtime than the communicator's. */
void uses_communicator(Recording &recording, const CommunicatorCore &communicator);

#endif
